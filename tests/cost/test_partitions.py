"""The bound of an allreduce against all partitions of the ranks."""

from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology
from collalgo.cost import tree_bounds
from collalgo.cost.bounds import bound
from collalgo.cost.cuts import Network
from collalgo.cost.placement import Placement
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.ways import PLANNED
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network


def partitions(items):
    """All partitions of a list, by the part of its first item."""
    if not items:
        yield []
        return
    first, *others = items
    for parts in partitions(others):
        yield [[first], *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]


def with_switches(topology, count):
    """The topology with switches between hosts, which forward and do not reduce."""
    hosts = [device.id for device in topology.devices()]
    for i in range(count):
        switch = topology.add(f"switch{i}", Kind.SWITCH)
        for j, host in enumerate(hosts[i::3]):
            topology.link(switch, host, LinkKind.NETWORK, 1.5 + j)
    return topology


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2), st.integers(0, 10_000))
def test_an_allreduce_is_bounded_by_the_worst_partition(size, switches, seed):
    topology = with_switches(network(size, seed=seed), switches)
    net = Network(topology)
    if net.ranks_per_host:  # of uniform hosts only some partitions are tried
        return
    worst = max(
        Fraction(2 * (len(parts) - 1)) / net.leaving(*map(net.around, parts))
        for parts in partitions(net.ranks)
        if len(parts) > 1
    )
    assert bound("allreduce", topology, kinds=LinkKind).per_byte == worst


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 12, 16, 17])
def test_the_bound_is_nearly_attained_by_trees(size):
    """The packing of trees is fractional, in 240 units: it is 3 % off at most."""
    topology = network(size, seed=size)
    least = float(bound("allreduce", topology).per_byte) / 1e9
    planner = Planner(Placement(topology))
    ways = map(Form, PLANNED["allreduce"])
    best = min(planner.least("allreduce", form).per_byte for form in ways)
    assert least * (1 - 1e-6) <= best <= 1.03 * least


def test_the_packages_of_a_mi250x_bound_its_allreduce():
    """Ten xGMI links join the four packages of two dies each."""
    found = bound("allreduce", Topology.load("mi250x"))
    assert found.per_byte == Fraction(2 * 3, 2 * 10 * 50)
    assert "4 groups of ranks such as host0/gpu[0-1]" in found.reason


def test_groups_of_several_ranks_are_told_from_single_ranks(monkeypatch):
    monkeypatch.setattr(tree_bounds, "MOST", 1)  # else trees are the reason
    broken = Topology.load("dgx_h100", hosts=4).degraded("host0/nic0", 0.1)
    reason = bound("allreduce", broken).reason
    assert "25 groups of ranks (host0, and each of the other 24 ranks)" in reason


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_a_cluster_has_the_groups_of_all_its_hosts(hosts):
    whole = Topology.load("mi250x", hosts=hosts, nics=4)
    cluster = UniformCluster.load("mi250x", hosts=hosts, nics=4)
    found, expected = bound("allreduce", cluster), bound("allreduce", whole)
    assert (found.per_byte, found.reason) == (expected.per_byte, expected.reason)
