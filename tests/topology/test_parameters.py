"""Parameters of machines and fabrics: odd values are refused, none is ignored."""

import math

import pytest

from collalgo.errors import TopologyError
from collalgo.topology import presets
from collalgo.topology.model import Kind, Topology
from tests.support.leisure import at_leisure

ODD = (0, -1, 1e-9, 1e30, math.nan, math.inf, 10**30, "x", (1,), (0, 4), (1e30, 2))


def parameters_of(name):
    if name in presets.FABRICS:
        return [*presets.FABRICS[name][1], "bandwidth", "latency"]
    return [*presets._document(name).get("parameters", {}), *presets.JOINING]


@pytest.mark.parametrize("name", at_leisure(presets.names(), presets.names()[::2]))
def test_odd_values_build_a_machine_or_are_refused(name):
    """No other exception, and no machine without bandwidth."""
    for parameter in parameters_of(name):
        for value in ODD:
            given = {"hosts": 2} if name not in presets.FABRICS else {}
            try:
                built = Topology.load(name, **{**given, parameter: value})
            except TopologyError:
                continue
            speeds = [link.bandwidth for link in built.links]
            assert all(s is None or 0 < s < 1e12 for s in speeds), (parameter, value)
            assert len(built.devices()) > 0


@pytest.mark.parametrize("oversubscription", [1, 1.5, 2, 2.5, 3, 4, 7, 100])
@pytest.mark.parametrize("k", [2, 4, 8])
def test_the_uplinks_of_a_fat_tree_have_the_bandwidth_asked_for(k, oversubscription):
    built = Topology.load("fat_tree", k=k, oversubscription=oversubscription)
    for leaf in built.devices(Kind.SWITCH):
        if "leaf" in leaf.id:
            up = uplinks(built, leaf.id)
            assert up == pytest.approx(12.5 * k / 2 / oversubscription)


@pytest.mark.parametrize("oversubscription", [0.5, 1, 1.5, 2, 3, 8, 100])
def test_the_uplinks_of_a_leaf_have_the_bandwidth_asked_for(oversubscription):
    built = Topology.load(
        "dgx_a100", hosts=4, hosts_per_leaf=2, oversubscription=oversubscription
    )
    hosts = sum(
        link.bandwidth
        for link in built.links
        if "leaf0" in link.ends and "spine" not in "".join(link.ends)
    )
    assert uplinks(built, "leaf0") == pytest.approx(hosts / oversubscription)


def uplinks(topology, leaf):
    return sum(
        link.bandwidth
        for link in topology.links
        if leaf in link.ends and "spine" in "".join(link.ends)
    )


@pytest.mark.parametrize("oversubscription", [0, 0.5, -1, 1e-9, 1e30])
def test_an_oversubscription_that_no_fat_tree_has_is_refused(oversubscription):
    with pytest.raises(TopologyError, match="oversubscription"):
        Topology.load("fat_tree", oversubscription=oversubscription)
