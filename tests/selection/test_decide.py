"""One decision: every call runs the algorithm that select announces."""

import json
import os
from functools import partial
from math import ceil
from unittest.mock import patch

import numpy as np
import pytest
import yaml

import collalgo
from collalgo import ALGORITHMS, CollalgoError, Topology, select, threads
from collalgo.algorithms import ring
from collalgo.comm import program_cache
from collalgo.comm.current import runner_of
from collalgo.comm.program_cache import ProgramCache
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection import on_host
from collalgo.selection.decide import Question, decide, decisions
from collalgo.selection.on_host import HostPricer

pytestmark = pytest.mark.parallel

#: Cells of worlds that are only asked, and of worlds whose ranks are threads.
ASKED, CALLED = 2000, 300

#: Names that are not in the table as they stand, or not at all.
OTHER_NAMES = ("ring(segments=3)", "k_nomial(radix=3)", "linear(lanes=2)", "rign")

REDUCING = ("allreduce", "reduce", "reduce_scatter", "scan", "exscan")
REPRODUCIBLE = ("allreduce", "reduce", "reduce_scatter")
BLOCKS = ("allgather", "gather", "scatter", "reduce_scatter", "alltoall")


def mine(group, rounds=1):
    """A schedule of a user, right for an allreduce only."""
    yield from ring.allreduce(group)


def random_profile(rng):
    """A host that does not exist, with any relation of latencies and bandwidths."""
    latency, switch, message = 10 ** rng.uniform((-7, -6, -8), (-5, -4, -6))
    copy, reduce = 10 ** rng.uniform(-11, -9, 2)
    far = rng.uniform(1, 3)
    return HostProfile(
        latency, switch, message, copy, reduce, int(rng.integers(1, 65)),
        copy * far, reduce * far, int(2 ** rng.uniform(16, 26)),
        exchange=rng.choice([0.0, copy]), fetch=rng.choice([0.0, copy / 2]),
    )  # fmt: skip


def random_algorithm(rng, collective):
    names = [row.name for row in ALGORITHMS if row.collective == collective]
    pool = [*names, *OTHER_NAMES]
    match rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]):
        case 0:
            return None
        case 1:
            return str(rng.choice(pool))
        case 2:
            return tuple(map(str, rng.choice(pool, rng.integers(1, 4))))
        case _:
            return partial(mine, rounds=2) if rng.random() < 0.5 else mine


def random_environment(rng, folder):
    """Variables by which the environment decides, for half of the worlds nothing."""
    collective = str(rng.choice(list(COLLECTIVES)))
    names = [row.name for row in ALGORITHMS if row.collective == collective]
    match rng.choice(3, p=[0.5, 0.2, 0.3]):
        case 0:
            return {}
        case 1:
            return {f"COLLALGO_{collective.upper()}": str(rng.choice(names))}
        case _:
            sizes = {int(2 ** rng.uniform(0, 28)): str(rng.choice(names)) for _ in "12"}
            rule = {"ranks": f"{rng.integers(1, 9)}..", "sizes": sizes}
            rules = {"collalgo": "rules/1", "rules": {collective: [rule]}}
            path = folder / f"rules{rng.integers(1 << 30)}.yaml"
            path.write_text(yaml.safe_dump(rules | {"blocks": ["alltoall"]}))
            return {"COLLALGO_RULES": str(path)}


def fields_of(rng, collective, size, most):
    """The fields of a random call, and the bytes of its larger buffer."""
    dtype = np.dtype(rng.choice(["int8", "float32", "complex128"]))
    nbytes = 0 if rng.random() < 0.05 else int(2 ** rng.uniform(0, most))
    whole = nbytes // dtype.itemsize if collective != "barrier" else 0
    if collective in BLOCKS:
        whole -= whole % size
    passes_block = collective in ("allgather", "gather", "scatter")
    count = whole // size if passes_block else whole
    counts = None
    if collective in ("allgather", "reduce_scatter") and rng.random() < 0.2:
        counts = tuple(map(int, rng.multinomial(whole, np.full(size, 1 / size))))
        count = counts[0] if passes_block else count
    rooted = COLLECTIVES[collective].rooted
    root = int(rng.integers(size)) if rooted else 0
    op = "sum" if collective in REDUCING else None
    reproducible = collective in REPRODUCIBLE and rng.random() < 0.2
    algorithm = random_algorithm(rng, collective)
    fields = collective, dtype, count, op, root, algorithm, counts, bool(reproducible)
    return fields, whole * dtype.itemsize


def outcome(ask):
    """The name of an algorithm, or the kind of error."""
    try:
        return ask()
    except CollalgoError as error:
        return type(error)


def announced(pricer, fields, nbytes):
    collective, *_, algorithm, _, reproducible = fields
    chosen = select(
        collective, nbytes, topology=pricer, algorithm=algorithm,
        reproducible=reproducible,
    )  # fmt: skip
    return chosen.decision.name


@pytest.fixture
def run(monkeypatch):
    """Makes the program of a call: the name in its record for the flight recorder."""
    made = {}
    real = program_cache.Program

    def program(plan, kernel, divisor, record, *policies):
        found = real(plan, kernel, divisor, record, *policies)
        made[id(found)] = found, record[-1]
        return found

    monkeypatch.setattr(program_cache, "Program", program)
    return lambda programs, fields: made[id(programs.get(*fields))][1]


def world_on_a_host(rng):
    size = int(rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33]))
    return ProgramCache(int(rng.integers(size)), size, random_profile(rng))


def world_of_hosts(rng):
    """Ranks on some of the devices of several hosts."""
    name = str(rng.choice(["dgx1v", "dgx_h100", "server8"]))
    topology = Topology.load(name, hosts=int(rng.integers(2, 4)))
    every = topology.devices("gpu")
    size = int(rng.integers(2, len(every) + 1))
    some = every[:: max(1, len(every) // size)][:size]
    number = {host: i for i, host in enumerate(topology.hosts)}
    hosts = [number[device.host] for device in some]
    devices = [device.id for device in some]
    return ProgramCache(
        0, size, random_profile(rng), hosts, lambda: (topology, devices)
    )


@pytest.mark.parametrize("hosts", ["one", "several"])
def test_what_would_run_is_what_is_announced(hosts, tmp_path, run):
    worlds, cells = (20, ASKED * 4 // 5) if hosts == "one" else (6, ASKED // 5)
    differ, names = [], set()
    for seed in range(worlds):
        rng = np.random.default_rng([seed, len(hosts)])
        programs = (world_on_a_host if hosts == "one" else world_of_hosts)(rng)
        some = rng.choice(list(COLLECTIVES), 3, replace=False)
        with patch.dict(os.environ, random_environment(rng, tmp_path)):
            for _ in range(-(-cells // worlds)):
                collective = str(rng.choice(some))
                fields, nbytes = fields_of(rng, collective, programs.size, 30)
                said = outcome(partial(announced, programs.pricer, fields, nbytes))
                does = outcome(partial(run, programs, fields))
                names.add(said)
                if said != does:
                    differ.append((programs.size, fields, nbytes, said, does))
    assert not differ
    assert len(names) > 40


def call(comm, rng, collective):
    """Make a random call: its buffer's bytes, and the arguments that decide."""
    blocks = comm.size if collective in BLOCKS else 1
    count = int(2 ** rng.uniform(0, 11)) if collective != "barrier" else 0
    asked = {"algorithm": random_algorithm(rng, collective)}
    if collective in REPRODUCIBLE and rng.random() < 0.2:
        asked["reproducible"] = True
    method = partial(getattr(comm, collective), **asked)
    block, whole = np.ones(count), np.ones((blocks, count))
    passed = {"barrier": (), "reduce_scatter": (whole,), "alltoall": (whole,)}
    if collective == "scatter":
        out = np.ones(count)
        passed["scatter"] = (whole if comm.rank == 0 else out,)
    made = outcome(lambda: method(*passed.get(collective, (block,))) is None)
    return 8 * count * blocks, asked, made


def calls_of(comm, seed, cells, folder):
    """Make random calls: the announced and the recorded algorithm of each."""
    rng = np.random.default_rng([seed, comm.size])
    said = []
    for _ in range(cells):
        collective = str(rng.choice(list(COLLECTIVES)))
        nbytes, asked, made = call(comm, rng, collective)
        found = outcome(
            lambda: comm.select(collective, nbytes, **asked).decision.name  # noqa: B023
        )
        assert isinstance(found, type) == isinstance(made, type), (collective, asked)
        if not isinstance(made, type):
            said.append((collective, found))
    collalgo.dump(folder / str(comm.rank))
    (path,) = (folder / str(comm.rank)).iterdir()
    (mine,) = (
        each
        for each in json.loads(path.read_text())["communicators"]
        if (each["name"], each["rank"]) == (comm.label, comm.rank)
    )
    return said, [(r["collective"], r["algorithm"]) for r in mine["records"]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_what_the_flight_recorder_says_is_what_is_announced(size, tmp_path):
    rng = np.random.default_rng(size)
    with patch.dict(os.environ, random_environment(rng, tmp_path)):
        each = partial(calls_of, seed=size, cells=CALLED // 5, folder=tmp_path)
        for said, recorded in threads(each, size):
            assert said == recorded
            assert len(said) > CALLED // 10


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
    try:
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
    finally:
        ALGORITHMS[:] = [row for row in ALGORITHMS if "_by_name" not in row.name]


def recorded_of(comm, asked):
    comm.allreduce(np.ones(100), algorithm=asked)
    return runner_of(comm).recorder.records()[-1]["algorithm"]


def test_an_order_of_the_ranks_is_part_of_the_decision(run):
    """A name stands for the best order of ranks, a name with parameters for itself."""
    topology = Topology.load("dgx1v")
    gpus = [device.id for device in topology.devices("gpu")]
    devices = [gpus[i] for i in (0, 5, 2, 7, 4, 1, 6, 3)]
    profile = random_profile(np.random.default_rng(8))
    programs = ProgramCache(0, 8, profile, (), lambda: (topology, devices))

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
