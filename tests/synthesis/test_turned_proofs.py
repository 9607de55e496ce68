"""Proofs of the transfers that represent all agree with proofs of all transfers."""

import numpy as np
import pytest

from collalgo import Topology
from collalgo.cost.placement import Placement
from collalgo.cost.symmetry import Symmetry
from collalgo.cost.turning import Turning
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.plan_proof import prove_plan
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.ways import WAVES
from tests.synthesis.test_plan_proof import (
    WITH_PEERS,
    is_proved,
    is_right,
    mutants,
    plan_with,
)

#: The collectives whose trees turn into each other on equal hosts.
TURNED = ("allgather", "reduce_scatter", "allreduce")

#: Machines where some ranks represent others.
SYMMETRIC = [
    lambda: Topology.load("torus", dims=(2, 3)),
    lambda: Topology.load("hypercube", dimensions=3),
    lambda: Topology.load("mesh", dims=(2, 3)),
]


@pytest.mark.parametrize("make", SYMMETRIC)
@pytest.mark.parametrize(
    ("collective", "way", "peers"),
    [one for one in WITH_PEERS if one[0] in TURNED and one[1] != WAVES],
)
def test_transfers_that_represent_all_are_proved_where_all_are(
    make, collective, way, peers
):
    planner = Planner(Placement(make()))
    steps = planner.steps(collective, Form(way, 2, peers=peers))
    plan, turning = steps.represented, steps.turning
    assert turning.count > 1
    prove_plan(plan, collective, 0, turning)
    found = [
        (is_proved(one, collective, 0, turning), is_proved(whole, collective, 0))
        for _, one in mutants(plan, 36, way + peers)
        for whole in [one.turned(turning)]
    ]
    assert not any(proved and not right for proved, right in found)
    assert sum(not proved for proved, _ in found) > 10
    assert sum(proved == right for proved, right in found) >= len(found) - 2


def exchange(*units):
    """Half a plan of two ranks that turn: rank 1 combines units in rank 0, and back."""
    return [
        row
        for unit in units
        for row in ((1, 0, unit, True, 0, 0), (0, 1, unit, False, 1, 0))
    ]


@pytest.mark.parametrize(
    ("collective", "units", "rows", "right"),
    [
        ("allreduce", 2, exchange(0), True),
        ("allreduce", 3, exchange(0), False),
        ("allreduce", 5, exchange(0, 1), False),
        ("broadcast", 2, exchange(0)[1:], False),
        ("reduce", 2, exchange(0)[:1], False),
    ],
)
def test_turned_units_of_one_buffer_are_all_proved(collective, units, rows, right):
    turning = Turning(Symmetry.all(2), np.arange(0))
    plan = plan_with(2, units, rows)
    plan = plan._replace(step=plan.step - plan.step.min())
    assert is_right(plan.turned(turning), collective, 0) == right
    assert is_proved(plan, collective, 0, turning) == right


def test_blocks_that_turn_into_each_other_have_equal_numbers_of_units():
    planner = Planner(Placement(Topology.load("hypercube", dimensions=2)))
    steps = planner.steps("allgather", Form("trees", 2))
    plan, units = steps.represented, steps.represented.blocks.units.copy()
    units[1] += 1
    more = plan._replace(blocks=Blocks.of(units, np.full(4, 0.25)))
    assert is_proved(plan, "allgather", 0, steps.turning)
    assert not is_proved(more, "allgather", 0, steps.turning)
