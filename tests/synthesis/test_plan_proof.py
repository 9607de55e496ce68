"""Proofs of plans by unit agree with those of schedules, also of wrong plans."""

import random

import numpy as np
import pytest

from collalgo import ScheduleError, Topology, verify
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
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


def mutants(plan, count, seed):
    """Plans with a transfer less, another rank or another step."""
    chance = random.Random(seed)
    for number in range(count):
        which = chance.randrange(len(plan.step))
        transfers, step = plan.transfers, plan.step.copy()
        kind = number % 3
        if kind == 0:
            keep = np.arange(len(step)) != which
            less = transfers._make([column[keep] for column in transfers])
            yield plan._replace(transfers=less, step=step[keep], lane=plan.lane[keep])
            continue
        if kind == 1:
            step[which] = chance.randrange(plan.steps)
        else:
            source = transfers.source.copy()
            others = [i for i in range(plan.size) if i != transfers.target[which]]
            source[which] = chance.choice(others)
            transfers = transfers._replace(source=source)
        yield plan._replace(transfers=transfers, step=step)


@pytest.mark.parametrize(("collective", "way"), WAYS)
def test_wrong_plans_are_refused_and_right_ones_proved(collective, way):
    plan = plan_of(network(4, seed=1), collective, way)
    found = [
        (is_proved(one, collective, 0), is_right(one, collective, 0))
        for one in mutants(plan, 30, way)
    ]
    assert not any(proved and not right for proved, right in found)
    assert sum(not proved for proved, _ in found) > 10
    assert sum(right and not proved for proved, right in found) <= 2


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
