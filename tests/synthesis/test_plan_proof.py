"""Proofs of plans by unit agree with those of schedules, also of wrong plans."""

import random

import numpy as np
import pytest

from collalgo import ScheduleError, Topology, verify
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
from collalgo.selection.on_topology import TopologyPricer
from collalgo.synthesis import kept_proofs
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.plan import LANES, OF_SEVERAL, Plan
from collalgo.synthesis.plan_proof import ALONG_TREES, prove_plan
from collalgo.synthesis.planner import ONE, SEVERAL, Form, Planner
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.tree_transfers import Transfers
from collalgo.synthesis.ways import PLANNED
from tests.support.host_networks import network

WAYS = [(name, way) for name in ALONG_TREES for way in PLANNED[name]]

#: The ways with the peers with which a rank combines data in a step.
WITH_PEERS = [
    (name, way, peers)
    for name, way in WAYS
    for peers in (ONE, SEVERAL)
    if peers == ONE or any(stage.reduces for stage in PLANNED[name][way])
]


def is_right(plan, collective, root):
    def schedule(group):
        yield from PlannedSteps(plan).of(group)

    try:
        verify(schedule, size=plan.size, collective=collective, root=root)
    except ScheduleError:
        return False
    return True


def is_proved(plan, collective, root, turning=None):
    try:
        prove_plan(plan, collective, root, turning)
    except ScheduleError:
        return False
    return True


def plan_of(topology, collective, way, rounds=3, root=0, peers=ONE):
    planner = Planner(Placement(topology))
    return planner.steps(collective, Form(way, rounds, peers=peers), root).plan


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 12])
@pytest.mark.parametrize(("collective", "way", "peers"), WITH_PEERS)
def test_plans_of_all_ways_are_proved(collective, way, peers, size):
    rooted = collective in ("broadcast", "reduce")
    root = size - 1 if rooted else 0
    plan = plan_of(network(size, seed=size), collective, way, root=root, peers=peers)
    prove_plan(plan, collective, root)
    if rooted:
        assert not is_proved(plan, collective, 0)


def without(plan, which):
    """A plan with a transfer less."""
    keep = np.arange(len(plan.step)) != which
    less = plan.transfers._make([column[keep] for column in plan.transfers])
    return plan._replace(transfers=less, step=plan.step[keep], lane=plan.lane[keep])


def changed(plan, which, column, value):
    """A plan with another value of a transfer."""
    of = plan if column in ("step", "lane") else plan.transfers
    values = getattr(of, column).copy()
    values[which] = value
    of = of._replace(**{column: values})
    return of if column in ("step", "lane") else plan._replace(transfers=of)


def mutants(plan, count, seed):
    """Plans without a transfer, or with another value in the column that is given."""
    chance = random.Random(seed)
    transfers = plan.transfers
    for number in range(count):
        which = chance.randrange(len(plan.step))
        values = {
            "step": range(plan.steps),
            "lane": {0, 1, 2, OF_SEVERAL} - {int(plan.lane[which])},
            "source": {*range(plan.size)} - {int(transfers.target[which])},
            "unit": range(int(plan.blocks.units[transfers.block[which]])),
            "reduces": [not transfers.reduces[which]],
        }
        column = ["", *values][number % (1 + len(values))]
        if column:
            value = chance.choice([*values[column]])
            yield column, changed(plan, which, column, value)
        else:
            yield column, without(plan, which)
    for others in ([0] * LANES, chance.sample(range(LANES), LANES)):
        yield "lane", plan._replace(lane=np.array(others)[plan.lane])


def plan_with(size, units, rows):
    """A plan of rows: source, target, unit, whether it is combined, step and lane."""
    source, target, unit, reduces, step, lane = map(np.array, zip(*rows, strict=True))
    transfers = Transfers(source, target, 0 * unit, unit, reduces)
    return Plan(size, Blocks.equal(1, units), transfers, step, lane)


def of_two_kinds():
    """A plan of two ranks where one message is to be combined and to be copied."""
    rows = [
        (1, 0, 0, True, 0, 0),
        (0, 1, 0, False, 1, 0),
        (0, 1, 1, True, 1, 0),
        (1, 0, 1, False, 2, 0),
    ]
    return plan_with(2, 2, rows)


@pytest.mark.parametrize(
    ("units", "right"),
    [([0, 1, 2, 3], True), ([2, 3, 0, 1], True), ([0, 2, 1, 3], False)],
)
def test_messages_that_are_combined_in_a_step_have_the_same_units(units, right):
    lanes = [0, 0, 1, 1]
    pairs = [(1, range(4)), (2, units)]
    rows = [
        (source, 0, unit, True, 0, lane)
        for source, some in pairs
        for unit, lane in zip(some, lanes, strict=True)
    ]
    plan = plan_with(3, 4, rows)
    assert is_proved(plan, "reduce", 0) == is_right(plan, "reduce", 0) == right


def test_messages_of_two_kinds_are_refused_and_the_same_on_two_lanes_proved():
    plan = of_two_kinds()
    assert not is_right(plan, "allreduce", 0)
    with pytest.raises(ScheduleError, match="from rank 0 to 1 of step 1 and lane 0"):
        prove_plan(plan, "allreduce")
    apart = changed(plan, 1, "lane", 1)
    assert is_right(apart, "allreduce", 0)
    prove_plan(apart, "allreduce")


@pytest.mark.parametrize(
    ("column", "values"),
    {
        "source": [-1, 2],
        "target": [-1, 2],
        "block": [-1, 1, 7],
        "unit": [-1, 2],
        "step": [-1, 4],
        "lane": [-1, LANES, 40],
    }.items(),
)
def test_numbers_out_of_range_are_refused(column, values):
    right = changed(of_two_kinds(), 1, "lane", 1)
    for value in values:
        with pytest.raises(ScheduleError, match=f"there is no {column} {value}"):
            prove_plan(changed(right, 2, column, value), "allreduce")


@pytest.mark.parametrize(("collective", "way", "peers"), WITH_PEERS)
def test_wrong_plans_are_refused_and_right_ones_proved(collective, way, peers):
    plan = plan_of(network(4, seed=1), collective, way, peers=peers)
    found = [
        (column, is_proved(one, collective, 0), is_right(one, collective, 0))
        for column, one in mutants(plan, 42, way + peers)
    ]
    assert not any(proved and not right for _, proved, right in found)
    assert sum(not proved for _, proved, _ in found) > 10
    refused = {column for column, proved, right in found if right and not proved}
    assert refused <= {"reduces"}  # combined with nothing, which is of another kind


@pytest.mark.parametrize("most", [0, 1 << 17])
def test_large_plans_are_proved_unit_by_unit_and_others_by_values(monkeypatch, most):
    def proving(name, real):
        def prove(*arguments):
            calls.append(name)
            real(*arguments)

        monkeypatch.setattr(kept_proofs, name, prove)

    calls = []
    proving("prove_plan", kept_proofs.prove_plan)
    proving("prove_once", kept_proofs.prove_once)
    monkeypatch.setattr(kept_proofs, "MOST_SYMBOLIC", most)
    pricer = TopologyPricer(network(5, seed=most))
    for collective in ("allgather", "alltoall"):
        (row, *_) = [
            one.row
            for one in pricer.candidates([pricer.find(collective, "synthesized")])
        ]
        pricer.prove(row, row.schedule, 0)
    along_trees = "prove_once" if most else "prove_plan"
    assert calls == [along_trees, "prove_once"]


def test_plans_of_another_collective_are_refused():
    topology = Topology.load("dgx1v")
    gathers = plan_of(topology, "allgather", "trees")
    for other in ("reduce_scatter", "allreduce"):
        with pytest.raises(ScheduleError):
            prove_plan(gathers, other)


@pytest.mark.parametrize(
    ("hosts", "collective", "way"),
    [
        (17, "allgather", "trees"),
        (17, "allreduce", "blocks"),
        (17, "reduce_scatter", "trees"),
        pytest.param(128, "allgather", "trees", marks=pytest.mark.slow),
        pytest.param(128, "allreduce", "blocks", marks=pytest.mark.slow),
    ],
)
def test_plans_of_many_equal_hosts_are_proved_and_near_their_bound(
    hosts, collective, way
):
    topology = Topology.load("dgx_h100", hosts=hosts)
    planner, form = Planner(Placement(topology)), Form(way, 16)
    prove_plan(planner.steps(collective, form).plan, collective)
    least = bound_of(collective, topology).seconds(1 << 30)
    assert least < planner.price(collective, form).seconds(1 << 30) < 1.5 * least
