"""The paths of scatters and gathers."""

import pytest
from collalgo.bench.over_bounds.machines import random_machine

from collalgo.cost.placement import Placement
from collalgo.synthesis.forms import forms
from collalgo.synthesis.planner import Planner
from collalgo.synthesis.ways import PLANNED


@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_paths_of_several_hops_are_spread_between_direct_ones(collective):
    """First alone, they leave links to the other ranks idle."""
    planner = Planner(Placement(random_machine(40)))
    least = {
        way: min(
            planner.price(collective, form).per_byte for form in forms(collective, way)
        )
        for way in PLANNED[collective]
    }
    assert least["evenly"] < 0.9 * least["paths"]
