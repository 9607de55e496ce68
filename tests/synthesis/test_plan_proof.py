"""Proofs of plans by unit agree with those of schedules, also of wrong plans."""

import random

import numpy as np
import pytest

from collalgo import ScheduleError, Topology, verify
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
from collalgo.selection.on_topology import TopologyPricer
from collalgo.synthesis import kept_proofs
from collalgo.synthesis.plan_proof import ALONG_TREES, prove_plan
from collalgo.synthesis.planner import PLANNED, Form, Planner
from collalgo.synthesis.schedule import PlannedSteps
from tests.support.host_networks import network

WAYS = [(name, way) for name in ALONG_TREES for way in PLANNED[name]]


def is_right(plan, collective, root):
    def schedule(group):
        yield from PlannedSteps(plan).of(group)

    try:
        verify(schedule, size=plan.size, collective=collective, root=root)
    except ScheduleError:
        return False
    return True


def is_proved(plan, collective, root):
    try:
        prove_plan(plan, collective, root)
    except ScheduleError:
        return False
    return True


def plan_of(topology, collective, way, rounds=3, root=0):
    planner = Planner(Placement(topology))
    return planner.steps(collective, Form(way, rounds), root).plan


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 12])
@pytest.mark.parametrize(("collective", "way"), WAYS)
def test_plans_of_all_ways_are_proved(collective, way, size):
    rooted = collective in ("broadcast", "reduce")
    root = size - 1 if rooted else 0
    plan = plan_of(network(size, seed=size), collective, way, root=root)
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
            "lane": {*range(3)} - {int(plan.lane[which])},
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


@pytest.mark.parametrize(("collective", "way"), WAYS)
def test_wrong_plans_are_refused_and_right_ones_proved(collective, way):
    plan = plan_of(network(4, seed=1), collective, way)
    found = [
        (column, is_proved(one, collective, 0), is_right(one, collective, 0))
        for column, one in mutants(plan, 36, way)
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
