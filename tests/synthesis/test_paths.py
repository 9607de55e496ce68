"""The paths of scatters and gathers."""

import pytest
from collalgo.bench.over_bounds.machines import random_machine

from collalgo import Topology
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


@pytest.mark.parametrize("collective", ["scatter", "gather"])
@pytest.mark.parametrize("name", ["mi300x", "dgx_h100"])
def test_what_is_relayed_comes_first_where_relays_are_fast(name, collective):
    planner = Planner(Placement(Topology.load(name, hosts=4)))
    least = {
        way: min(
            planner.price(collective, form).seconds(1 << 30)
            for form in forms(collective, way)
        )
        for way in PLANNED[collective]
    }
    assert least["far_first"] < 0.98 * min(least["paths"], least["evenly"])
