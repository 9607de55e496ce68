"""The links of many equal hosts that carry messages are those of two of them."""

import pytest

from collalgo import Topology
from collalgo.cost import used_links as module
from collalgo.cost.used_links import used_links


@pytest.mark.parametrize(
    ("name", "hosts", "parameters"),
    [
        ("dgx1v", 3, {}),
        ("dgx_a100", 4, {"nics": 2}),
        ("dgx_h100", 5, {"rail": True}),
        ("mi250x", 3, {"nics": 1}),
    ],
)
def test_two_hosts_tell_which_links_of_all_are_used(
    name, hosts, parameters, monkeypatch
):
    topology = Topology.load(name, hosts=hosts, **parameters)
    by_routes = used_links(topology)
    assert len(by_routes) < len(topology.links)
    few = len(topology.devices("gpu")) // hosts * 2
    monkeypatch.setattr(module, "MOST_RANKS", few)
    assert {*used_links(topology)} == {*by_routes}
