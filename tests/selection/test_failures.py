"""The elements that may fail: those that ranks use, equal ones together."""

from functools import partial
from itertools import combinations

import pytest

from collalgo import Topology
from collalgo.cost.placement import Placement
from collalgo.selection.failures import failures
from collalgo.topology.compare import isomorphic
from tests.support.host_networks import network

MACHINES = [
    partial(Topology.load, "dgx1v"),
    partial(Topology.load, "mi250x"),
    partial(Topology.load, "mesh", dims=(2, 3)),
    partial(Topology.load, "mesh", dims=(5,)),
    partial(network, 6, seed=1),
]


@pytest.mark.parametrize("make", MACHINES)
def test_equal_elements_leave_equal_machines_and_others_do_not(make):
    topology = make()
    groups = failures(Placement(topology))
    rest = [[topology.without(one.name) for one in group] for group in groups]
    for group in rest:
        assert all(isomorphic(group[0], other) for other in group[1:])
    for (one, here), (other, there) in combinations(zip(groups, rest, strict=True), 2):
        if one[0].kind == other[0].kind:
            assert not isomorphic(here[0], there[0]), (one[0], other[0])


def test_elements_without_messages_of_ranks_are_left_out():
    topology = Topology.load("dgx1v")
    kinds = {group[0].kind for group in failures(Placement(topology))}
    assert kinds == {"gpu", "nvlink"}
    two = failures(Placement(topology, ["host0/gpu0", "host0/gpu1"]))
    assert [[one.name for one in group] for group in two] == [
        ["host0/gpu0", "host0/gpu1"],
        ["host0/gpu0-host0/gpu1"],
    ]


def test_hosts_of_a_cluster_are_elements_and_equal():
    groups = failures(Placement(Topology.load("mi250x", hosts=2, nics=1)))
    assert [str(one) for one in groups[0]] == ["host host0", "host host1"]
