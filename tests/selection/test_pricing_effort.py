"""Few schedules are priced for a choice, and none that could have won is left out."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

from collalgo import Topology, select
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection import lazy_prices
from collalgo.selection.decide import Question, decide
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.prices import SIZES, breaks, sizes_beside
from tests.support.leisure import at_leisure

MACHINES = {
    "one host": ("dgx1v", {}),
    "one NIC": ("dgx1v", {"hosts": 4, "nics": 1}),
    "all NICs": ("dgx_a100", {"hosts": 3}),
    "a torus": ("torus", {"dims": (3, 4)}),
}


EVERY = [*product(COLLECTIVES, MACHINES)]


@pytest.mark.parametrize(("collective", "name"), at_leisure(EVERY, EVERY[::5]))
def test_what_has_no_price_could_not_have_won(collective, name):
    machine, parameters = MACHINES[name]
    topology = Topology.load(machine, **parameters)
    prospect = TopologyPricer(topology)
    rows, _ = prospect.applicable(collective)
    for one in prospect.candidates(rows):
        before = np.zeros(len(SIZES))
        while not one.known:
            estimate = one.least.seconds(SIZES)
            assert (before <= estimate * (1 + 1e-9)).all(), one.row.name
            before = estimate
            one.improve()
    found = TopologyPricer(topology).choices(collective).breaks
    every = breaks(prospect.priced(rows))
    assert [one.nbytes for one in found] == [one.nbytes for one in every]
    assert [one.candidate for one in found] == [one.candidate for one in every]


def test_a_schedule_of_too_many_steps_is_not_priced_and_one_of_symmetry_is(monkeypatch):
    monkeypatch.setattr(lazy_prices, "MANY", 16)
    monkeypatch.setattr(lazy_prices, "MOST_STEPS", 300)
    able, unable = TopologyPricer(Topology.load("torus", dims=(4, 5))).applicable(
        "allreduce"
    )
    (why,) = [why for row, why in unable.items() if row.name == "pipeline"]
    assert why == "its 38 steps on 20 ranks take too long to price"
    assert {"ring", "recursive_doubling"} <= {row.name for row in able}
    few, _ = TopologyPricer(Topology.load("torus", dims=(3, 5))).applicable("allreduce")
    assert "pipeline" in {row.name for row in few}


def test_ranks_that_are_threads_may_ask_at_once():
    prospect = TopologyPricer(Topology.load("dgx_a100", hosts=2))
    names = ("allreduce", "allgather")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(
                pool.map(lambda name: prospect.choices(name).breaks, 4 * names)
            )
    finally:
        sys.setswitchinterval(before)
    assert found == 4 * found[:2]


def test_few_schedules_are_priced_for_a_choice():
    prospect = TopologyPricer(Topology.load("dgx_h100", hosts=4))
    rows, _ = prospect.applicable("allreduce")
    every = len(prospect.candidates(rows))
    assert len(prospect.prune(rows, np.array([1e6]))) < every / 3
    chosen = select("allreduce", 1_000_000, topology=prospect)
    able = [one.seconds for one in chosen.candidates if one.obstacle is None]
    assert len(able) == every
    assert chosen.seconds == min(able)


SIZES_ASKED = (0, 1, 3, 1000, 1 << 14, 100_003, 3 << 20, 1 << 30, 5 << 41)


FEW = [("allgather", "a torus"), ("allreduce", "a torus"), ("scan", "one NIC")]


@pytest.mark.parametrize(("collective", "name"), at_leisure(EVERY, FEW))
def test_a_decision_on_one_size_is_that_of_all_sizes(collective, name):
    machine, parameters = MACHINES[name]
    topology = Topology.load(machine, **parameters)
    whole, pricer = TopologyPricer(topology).choices(collective), None
    for nbytes in SIZES_ASKED:
        if nbytes in SIZES_ASKED[::4]:
            pricer = TopologyPricer(topology)
        asked = Question(collective, nbytes, only=nbytes)
        found, other = decide(asked, pricer).candidate, whole.at(nbytes)
        assert (found.row, found.order) == (other.row, other.order)
        named = asked._replace(algorithm=found.row.base_name)
        assert decide(named, pricer).candidate.row == found.row


def test_a_decision_on_one_size_prices_fewer_candidates():
    topology = Topology.load("dgx_h100", hosts=2)
    one, every = TopologyPricer(topology), TopologyPricer(topology)
    rows, _ = one.applicable("allgather")
    decide(Question("allgather", 1 << 30, only=1 << 30), one)
    every.choices("allgather")
    known = [sum(c.known for c in of.candidates(rows)) for of in (one, every)]
    assert 0 < known[0] < known[1]


@pytest.mark.parametrize("nbytes", [0, 1, 2, 5, 8, 1000, 1 << 30, 3 << 30, 1 << 50])
def test_a_size_is_decided_by_itself_or_by_those_beside_it(nbytes):
    found = sizes_beside(nbytes)
    assert found[0] <= nbytes
    if len(found) == 1:
        assert nbytes == found[0] or found[0] == SIZES[-1]
    else:
        assert len(found) == 2
        assert nbytes < found[1]
        assert (SIZES[:-1] == found[0]).nonzero() == (SIZES[1:] == found[1]).nonzero()
