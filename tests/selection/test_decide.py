"""One decision: every call runs the algorithm that select announces."""

from functools import partial
from math import ceil

import numpy as np
import pytest

import collalgo
from collalgo import ALGORITHMS, Topology, select, threads
from collalgo.algorithms import ring
from collalgo.bootstrap.host_inventory import PlacedTopology
from collalgo.comm.current import runner_of
from collalgo.comm.program_cache import ProgramCache
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection import on_host
from collalgo.selection.decide import Question, decide, decisions
from collalgo.selection.on_host import HostPricer
from tests.support.random_questions import (
    mine,
    random_environment,
    random_profile,
    world_on_a_host,
)


def test_a_long_call_of_two_ranks_is_announced_as_it_runs(run):
    """The cell by which calls and selections once differed."""
    programs = ProgramCache(0, 2, HostProfile(3e-7, 3e-6, 1e-7, 1e-10, 1e-10, cores=2))
    fields = "allreduce", np.dtype(np.uint8), 100_000, "sum", 0, None, None, False
    chosen = select("allreduce", 100_000, topology=programs.pricer)
    assert run(programs, fields) == chosen.algorithm == "two_shot"
    assert chosen.choice == chosen.candidates[0]
    assert chosen.explain(None).count("\n") > 20


def test_a_decision_says_for_which_sizes_it_holds(tmp_path, monkeypatch):
    rng = np.random.default_rng(11)
    for _ in range(30):
        programs, collective = world_on_a_host(rng), str(rng.choice(list(COLLECTIVES)))
        with monkeypatch.context() as patched:
            for name, value in random_environment(rng, tmp_path).items():
                patched.setenv(name, value)
            try:
                compare_within(rng, collective, programs.pricer)
            except collalgo.AlgorithmNotApplicable:  # what the environment names
                continue


def compare_within(rng, collective, pricer):
    for nbytes in (2 ** rng.uniform(0, 26, 5)).astype(int).tolist():
        known = decisions(Question(collective, nbytes), pricer)
        found = known.at(nbytes)
        least, limit = known.around(nbytes)
        assert least <= nbytes < limit
        first, last = ceil(least), ceil(min(limit, 1 << 30)) - 1
        for other in (first, last, int(rng.integers(first, last + 1))):
            assert decide(Question(collective, other), pricer) is found


def test_ranks_that_are_threads_price_once(monkeypatch):
    """All ranks ask at once; one of them computes for all."""
    priced = []
    real = on_host.HostPrice

    def price(schedules, profile):
        priced.append(len(schedules))
        return real(schedules, profile)

    monkeypatch.setattr(on_host, "HostPrice", price)
    profile = random_profile(np.random.default_rng(64))

    def ask(_):
        pricer = HostPricer(16, profile)
        names = [decide(Question("scan", n), pricer).name for n in (8, 1 << 20)]
        asked = Question("scan", 8, "linear(segments=2)")
        return names, decide(asked, pricer).candidate.price.seconds(8)

    found = threads(ask, 16)
    assert found == found[:1] * 16
    scans = [row for row in ALGORITHMS if row.collective == "scan"]
    assert len(priced) == len(scans) + 1


def test_an_algorithm_of_a_user_goes_the_same_way():
    """A function and a row of the table, right and wrong, by calls and by select."""

    def wrong(group):
        yield from ring.reduce_scatter(group)

    collalgo.algorithm("allreduce", "mine_by_name")(mine)
    collalgo.algorithm("allreduce", "wrong_by_name")(wrong)
    pricer = HostPricer(4, random_profile(np.random.default_rng(4)))
    for asked in (mine, "mine_by_name", ["rign", "mine_by_name"]):
        chosen = select("allreduce", 800, topology=pricer, algorithm=asked)
        assert chosen.decider == "the argument"
        assert chosen.seconds > 0
        assert chosen.decision.name in ("mine", "mine_by_name")
        each = partial(recorded_of, asked=asked)
        assert threads(each, 4) == [chosen.decision.name] * 4
    for asked in (wrong, "wrong_by_name"):
        with pytest.raises(collalgo.ScheduleError):
            select("allreduce", 800, topology=pricer, algorithm=asked)
        with pytest.raises(collalgo.ScheduleError):
            threads(partial(recorded_of, asked=asked), 2)


def recorded_of(comm, asked):
    comm.allreduce(np.ones(100), algorithm=asked)
    return runner_of(comm).recorder.records()[-1]["algorithm"]


def test_an_order_of_the_ranks_is_part_of_the_decision(run):
    """A name stands for the best order of ranks, a name with parameters for itself."""
    topology = Topology.load("dgx1v")
    gpus = [device.id for device in topology.devices("gpu")]
    devices = [gpus[i] for i in (0, 5, 2, 7, 4, 1, 6, 3)]
    placed = PlacedTopology(topology, tuple(devices))
    profile = random_profile(np.random.default_rng(8))
    programs = ProgramCache(0, 8, profile, (), lambda: placed)

    def of(algorithm):
        fields = "allreduce", np.dtype(np.uint8), 1 << 20, "sum", 0, algorithm
        chosen = select(
            "allreduce", 1 << 20, topology=programs.pricer, algorithm=algorithm
        )
        assert run(programs, (*fields, None, False)) == chosen.decision.name
        return chosen

    ordered = of("ring")
    assert ordered.choice.order == "ring"
    assert ordered.decision.name.startswith("ring(order=(")
    as_it_stands = of("ring(lanes=1)")
    assert as_it_stands.decision.name == "ring(lanes=1)"
    assert as_it_stands.seconds > ordered.seconds


def test_what_is_asked_for_must_be_a_name_or_a_function():
    for asked in (3, ["ring", 3], {"ring": 1}):
        with pytest.raises(TypeError, match=r"select: algorithm is .*; pass a name"):
            select("allreduce", 8, size=2, algorithm=asked)
