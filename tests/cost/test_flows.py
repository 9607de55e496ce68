"""Flows among sets of devices that are alike are those of the whole network."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology
from collalgo.cost import cuts
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.cuts import Network
from collalgo.cost.equitable import EquitablePartition
from collalgo.cost.flows import least_cut
from collalgo.cost.link_model import DEFAULTS
from collalgo.cost.machine import with_assumed_speeds
from collalgo.cost.routing import Routes
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.places import ranks_of
from collalgo.topology.twins import Twins

quickly = settings(max_examples=60)

#: Symmetric graphs, and some in which devices are alike but cannot change places.
GRAPHS = {
    "two triangles": nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
    "hexagon": nx.cycle_graph(6),
    "frucht": nx.frucht_graph(),
    "torus": nx.grid_2d_graph(3, 4, periodic=True),
    "hypercube": nx.hypercube_graph(4),
    "tree": nx.balanced_tree(3, 3),
    "star": nx.star_graph(17),
    "caterpillar": nx.Graph(
        [(i, i + 1) for i in range(5)] + [(i, 9 + i) for i in (1, 3)]
    ),
}


def capacities_of(graph, weights=(1,)):
    """A graph as a flow network, with these capacities in turn."""
    found = {str(a): {} for a in graph}
    for i, (a, b) in enumerate(graph.edges):
        found[str(a)][str(b)] = found[str(b)][str(a)] = weights[i % len(weights)]
    return found


def whole_cut(capacities, sources, sinks):
    graph = nx.DiGraph()
    for a, near in capacities.items():
        for b, capacity in near.items():
            graph.add_edge(a, b, capacity=capacity)
    for one, most in sources.items():
        graph.add_edge("source", one, **({} if most is None else {"capacity": most}))
    for one, most in sinks.items():
        graph.add_edge(one, "sink", **({} if most is None else {"capacity": most}))
    value, (side, _) = nx.minimum_cut(graph, "source", "sink")
    return value, side - {"source"}


@quickly
@given(
    st.sampled_from(sorted(GRAPHS)),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.data(),
)
def test_a_cut_is_that_of_the_whole_network(name, weights, data):
    capacities = capacities_of(GRAPHS[name], weights)
    nodes = st.sampled_from(sorted(capacities))
    limit = st.one_of(st.none(), st.integers(1, 9))
    sources = data.draw(st.dictionaries(nodes, limit, min_size=1, max_size=4))
    sinks = data.draw(st.dictionaries(nodes, limit, min_size=1, max_size=20))
    sinks = {key: most for key, most in sinks.items() if key not in sources}
    if not sinks:
        return
    partition = EquitablePartition(capacities)
    value, side = least_cut(partition, sources, sinks, 1)
    expected, _ = whole_cut(capacities, sources, sinks)
    assert value == expected
    crossing = sum(c for a in side for b, c in capacities[a].items() if b not in side)
    crossing += sum(most or 0 for one, most in sources.items() if one not in side)
    crossing += sum(most or 0 for one, most in sinks.items() if one in side)
    assert crossing == value
    assert all(most is not None or one in side for one, most in sources.items())


@quickly
@given(st.sampled_from(sorted(GRAPHS)), st.data())
def test_a_partition_is_equitable_and_as_coarse_as_can_be(name, data):
    capacities = capacities_of(GRAPHS[name], (1, 2))
    nodes = sorted(capacities)
    parts = data.draw(st.lists(st.sets(st.sampled_from(nodes)), max_size=3))
    at_once = EquitablePartition(capacities, parts)
    found = EquitablePartition(capacities)
    for part in parts:
        found = found.refined([part])
    colour = {node: tuple(node in part for part in parts) for node in nodes}
    for _ in nodes:  # until nothing changes: the definition
        colour = {
            a: (colour[a], tuple(sorted((colour[b], c) for b, c in near.items())))
            for a, near in capacities.items()
        }
        names = {one: i for i, one in enumerate(sorted(set(colour.values())))}
        colour = {node: (names[one],) for node, one in colour.items()}
    sets = {frozenset(n for n in nodes if colour[n] == one) for one in colour.values()}
    for partition in (found, at_once):
        assert {frozenset(one) for one in partition.sets} == sets


def lopsided(leaves):
    """A tree of switches with these numbers of hosts, on links of two speeds."""
    topology = Topology("tree", "a test")
    root = topology.add("root", Kind.SWITCH)
    for i, count in enumerate(leaves):
        leaf = topology.add(f"leaf{i}", Kind.SWITCH)
        topology.link(leaf, root, LinkKind.NETWORK, 3.0 + i % 2)
        for j in range(count):
            host = topology.add(f"h{i}x{j}", Kind.HOST)
            topology.link(host, leaf, LinkKind.NETWORK, 1.0 + (i + j) % 3 / 2)
    return topology


@pytest.mark.parametrize("leaves", [(40, 30), (17, 17, 33), (1, 2, 3, 5, 7, 8, 12, 40)])
@pytest.mark.parametrize("collective", BOUNDED)
def test_the_bound_of_a_large_tree_is_that_by_all_ranks(
    collective, leaves, monkeypatch
):
    topology = lopsided(leaves)
    assert len(Network(topology).ranks) > cuts.EVERY_RANK
    found = bound(collective, topology)
    monkeypatch.setattr(cuts, "EVERY_RANK", 1000)
    monkeypatch.setattr("collalgo.cost.latencies.SAMPLED", 1000)
    best = bound(collective, topology)  # of several witnesses one is as good
    assert (best.per_byte, best.exact) == (found.per_byte, found.exact)
    assert best.latency == pytest.approx(found.latency)


@pytest.mark.parametrize(
    "topology",
    [
        lopsided((1, 2, 3, 7)),
        Topology.load("fat_tree", k=6),
        Topology.load("dgx1v", hosts=2),
        Topology.load("cpu2s"),
    ],
)
def test_routes_of_twins_are_those_without_twins(topology, monkeypatch):
    devices = ranks_of(topology)[:40]
    pairs = np.divmod(np.arange(len(devices) ** 2), len(devices))
    topology = with_assumed_speeds(topology, DEFAULTS)
    latency, loads = Routes(topology, devices).link_loads(*pairs)
    monkeypatch.setattr(Twins, "like", lambda _self, a, b: (a, b))
    monkeypatch.setattr(Twins, "kept", lambda _self, a: (a,))
    monkeypatch.setattr(
        Twins, "__init__", lambda self, whole: setattr(self, "reduced", whole)
    )
    expected, others = Routes(topology, devices).link_loads(*pairs)
    assert np.array_equal(latency, expected)
    for mine, theirs in zip(_sorted(loads), _sorted(others), strict=True):
        assert np.allclose(mine, theirs)


def _sorted(loads):
    order = np.lexsort((loads.link, loads.message))
    return [column[order] for column in loads]
