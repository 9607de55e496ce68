"""Prices in rounds of several schedules together, as in selection."""

import pytest

from collalgo import Topology
from collalgo.algorithms.catalogue import candidates
from collalgo.cost.messages import NOTHING, all_messages
from collalgo.cost.placement import Placement


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("collective", ["gather", "broadcast", "allreduce", "barrier"])
def test_prices_computed_together_equal_those_computed_alone(collective, ranks):
    """Also of similar schedules with few distinct steps."""
    placement = Placement(Topology.load("torus", dims=(ranks,)))
    schedules = [
        all_messages(row.schedule, ranks)
        for row in candidates(collective)
        if row.obstacle(ranks) is None
    ]
    for some in (schedules, schedules[:1] * 3, [NOTHING, *schedules[-1:], NOTHING]):
        ones = [1] * len(some)
        alone = [placement.least([schedule], [1])[0] for schedule in some]
        for together, apart in zip(placement.least(some, ones), alone, strict=True):
            assert together == pytest.approx(apart)
