"""Trees of one rank are turned into those of others, where the machine is the same."""

from functools import partial

import numpy as np
import pytest

from collalgo import Topology, verify
from collalgo.cost.placement import Placement
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.path_traffic import alltoall
from collalgo.synthesis.plan import Plan
from collalgo.synthesis.planner import MOST_ALIKE, ONE, SEVERAL, Form, Planner, can_plan
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.synthesis.share_traffic import shares
from collalgo.synthesis.traffic import allgather, allreduce
from collalgo.synthesis.ways import OF_MANY, PLANNED
from tests.support.host_networks import network

#: Machines with the radix of each digit of a rank, the least significant first, and
#: whether it turns.
MACHINES = [
    (partial(Topology.load, "torus", dims=(3, 5)), (3, 5), (True, True)),
    (partial(Topology.load, "hypercube", dimensions=3), (2, 2, 2), (True,) * 3),
    (partial(Topology.load, "mesh", dims=(2, 3)), (2, 3), (True, False)),
    (partial(Topology.load, "dgx_h100", hosts=3), (8, 3), (True, True)),
    (partial(Topology.load, "dgx_a100", hosts=2), (2, 4, 2), (True, True, True)),
    (partial(network, 7, seed=2), (7,), (False,)),
]


def links_of(topology, reverse=False):
    return PairLinks.of(RankRoutes(Placement(topology)), reverse)


@pytest.mark.parametrize(("make", "radices", "turns"), MACHINES)
def test_the_digits_that_turn_are_those_of_the_machine(make, radices, turns):
    for reverse in (False, True):
        found = links_of(make(), reverse).turned.turning
        assert found.symmetry == (radices, turns)
        assert found.count == np.prod(np.array(radices)[list(turns)])


def test_a_slow_link_and_a_lost_rank_leave_no_turn():
    machine = Topology.load("torus", dims=(3, 3))
    for broken in (machine.degraded("host0-host1", 0.5), machine.without("host4")):
        assert links_of(broken).turned.turning.count == 1


def busiest(pairs, plan):
    """The seconds of the busiest link for each byte of a unit of a plan."""
    load = np.zeros(len(pairs.bytes_per_second))
    count = np.bincount(
        plan.transfers.source * pairs.size + plan.transfers.target,
        minlength=pairs.size**2,
    )
    of = np.repeat(np.arange(pairs.size**2), np.diff(pairs.first))
    np.add.at(load, pairs.links, count[of] * pairs.parts)
    return (load / pairs.bytes_per_second).max()


@pytest.mark.parametrize("make", [one[0] for one in MACHINES])
@pytest.mark.parametrize("kind", [allgather, allreduce, shares, alltoall])
def test_links_carry_what_the_sets_of_links_that_turn_do(make, kind):
    pairs = links_of(make())
    made = kind(pairs, 0, False)
    nothing = np.zeros(len(made.transfers.source), np.int64)
    part = Plan(pairs.size, made.blocks, made.transfers, nothing, nothing)
    whole = part.turned(made.pairs.turning)
    assert len(whole.step) == len(nothing) * made.pairs.turning.count
    assert busiest(pairs, whole) == pytest.approx(made.busy)


@pytest.mark.parametrize("make", [one[0] for one in MACHINES[:-1]])
def test_turned_plans_are_proved(make):
    planner = Planner(Placement(make()))
    for collective, way in (
        ("allgather", "trees"),
        ("alltoall", "paths"),
        ("reduce_scatter", "trees"),
        ("allreduce", "trees"),
    ):
        several = collective in ("reduce_scatter", "allreduce")
        form = Form(way, 2, peers=SEVERAL if several else ONE)
        steps = planner.steps(collective, form).of
        verify(steps, size=planner.size, collective=collective)


@pytest.mark.parametrize("make", [one[0] for one in MACHINES])
@pytest.mark.parametrize(
    ("collective", "way"), [("allgather", "trees"), ("allreduce", "trees"),
    ("allreduce", "blocks"), ("alltoall", "paths"), ("broadcast", "trees")]
)  # fmt: skip
def test_each_rank_turns_its_own_transfers(make, collective, way):
    steps = Planner(Placement(make())).steps(collective, Form(way, 2))
    whole = steps.plan
    assert steps.transfers == len(whole.step)
    rows = np.stack([*whole.transfers, whole.step, whole.lane], axis=1)
    for rank in range(whole.size):
        own = steps.represented.of_rank(rank, steps.turning)
        found = np.stack([*own.transfers, own.step, own.lane], axis=1)
        expected = rows[(rows[:, 0] == rank) | (rows[:, 1] == rank)]
        assert sorted(found.tolist()) == sorted(expected.tolist())


def test_up_to_1024_ranks_of_equal_hosts_are_planned_for_and_fewer_of_unlike_ones():
    equal = Placement(Topology.load("dgx_h100", hosts=16))
    assert all(can_plan(name, equal) for name in PLANNED)
    unlike = Placement(equal.machine.without("host3/nic0"))
    assert all(can_plan(name, unlike) for name in PLANNED)
    more = Placement(Topology.load("dgx_h100", hosts=17))
    assert {name for name in PLANNED if can_plan(name, more)} == {*OF_MANY}
    unlike = Placement(more.machine.without("host3/nic0"))
    assert {name for name in PLANNED if can_plan(name, unlike)} == {*OF_MANY}
    most = Placement(Topology.load("dgx_h100", hosts=MOST_ALIKE // 8))
    assert can_plan("allgather", most)
    unlike = Placement(most.machine.without("host3/nic0"))
    assert not any(can_plan(name, unlike) for name in PLANNED)
    beyond = Placement(Topology.load("dgx_h100", hosts=MOST_ALIKE // 8 + 1))
    assert not any(can_plan(name, beyond) for name in PLANNED)
