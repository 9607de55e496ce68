"""Packings of trees: valid, within the loads they tell, and near the bound by cuts."""

import random
from fractions import Fraction
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology
from collalgo._kernels.synthesis.packing import Packing
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
from collalgo.synthesis.packing import ANY, pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network

UNITS = 64


def links_of(topology, reverse=False):
    return PairLinks.of(RankRoutes(Placement(topology)), reverse)


def edges(parents):
    return [(int(up), v) for v, up in enumerate(parents) if up >= 0]


def loads(pairs, trees, both_ways=False):
    """The seconds of each link for each byte of a unit, counted one by one."""
    found = dict.fromkeys(range(len(pairs.bytes_per_second)), Fraction(0))
    for tree in trees.parents:
        for u, v in edges(tree):
            for a, b in [(u, v), (v, u)] if both_ways else [(u, v)]:
                pair = a * pairs.size + b
                for i in range(pairs.first[pair], pairs.first[pair + 1]):
                    part = Fraction(float(pairs.parts[i]))
                    speed = Fraction(float(pairs.bytes_per_second[pairs.links[i]]))
                    found[int(pairs.links[i])] += part / speed
    return found


def one_tree(size, slowness, root):
    """A packing of one tree in the complete graph, from the slowness of its links."""
    n = size * size
    pair = np.arange(n)
    usable = (pair // size != pair % size).astype(np.uint8)
    return Packing(
        size,
        np.arange(n + 1),
        pair,
        np.ones(n),
        usable,
        1 / slowness,
        np.array([root]),
        np.array([-1]),
    )


def cheapest_arborescence(size, costs, root):
    """The one that networkx finds."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(size))
    for u, v in product(range(size), repeat=2):
        if v not in (u, root):
            graph.add_edge(u, v, weight=costs[u * size + v])
    return nx.minimum_spanning_arborescence(graph)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 17])
def test_a_tree_is_the_cheapest_arborescence(size):
    chance = random.Random(size)
    for root in {0, size - 1}:
        n = size * size
        slowness = np.array([chance.choice([1, 2, 3, 5, 8]) for _ in range(n)], float)
        packing = one_tree(size, slowness, root)
        packing.sweep(0)  # a link costs the square of its slowness
        found = edges(packing.parents[0])
        best = cheapest_arborescence(size, slowness**2, root)
        assert len(found) == size - 1
        tree = nx.DiGraph(found)
        assert size == 1 or set(nx.descendants(tree, root)) == {*range(size)} - {root}
        price = sum(slowness[u * size + v] ** 2 for u, v in found)
        assert price == pytest.approx(best.size("weight"))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 17])
def test_a_tree_from_any_rank_has_the_root_that_makes_it_cheapest(size):
    chance = random.Random(size)
    slowness = np.array([chance.choice([1, 2, 3, 5, 8]) for _ in range(size**2)], float)
    packing = one_tree(size, slowness, ANY)
    packing.sweep(0)
    found = edges(packing.parents[0])
    each = [cheapest_arborescence(size, slowness**2, one) for one in range(size)]
    best = min(tree.size("weight") for tree in each)
    assert len(found) == size - 1
    assert sum(slowness[u * size + v] ** 2 for u, v in found) == pytest.approx(best)


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 12, 16, 17])
def test_trees_span_all_ranks_and_load_links_as_they_tell(size):
    pairs = links_of(network(size, seed=1))
    roots = [*range(size)] * 4
    for both_ways in (False, True):
        trees = pack(pairs, roots, both_ways=both_ways)
        for root, parents in zip(roots, trees.parents, strict=True):
            tree = nx.DiGraph(edges(parents))
            assert parents[root] == -1
            assert tree.number_of_edges() == size - 1
            assert set(nx.descendants(tree, root)) == {*range(size)} - {root}
        told = max(loads(pairs, trees, both_ways).values())
        assert trees.busy == pytest.approx(float(told), rel=1e-9)


@pytest.mark.parametrize("size", [3, 5, 8, 12])
def test_paths_lead_to_their_ends_only(size):
    pairs = links_of(network(size, seed=2))
    ends = [*range(1, size)] * 3
    for end, parents in zip(
        ends, pack(pairs, [0] * len(ends), ends).parents, strict=True
    ):
        at = end
        way = {0}
        while at:
            way.add(at)
            at = parents[at]
            assert at >= 0
        assert {i for i, up in enumerate(parents) if up > -2} == way


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 9), st.floats(0, 3), st.integers(0, 1000))
def test_trees_are_near_the_bound_by_cuts_and_never_below_it(size, extra, seed):
    topology = network(size, extra, seed)
    pairs = links_of(topology)
    for collective, roots, units in (
        ("allgather", [*range(size)] * UNITS, UNITS * size),
        ("broadcast", [0] * 4 * UNITS, 4 * UNITS),
    ):
        bound = bound_of(collective, topology)
        assert bound.exact
        found = pack(pairs, roots).busy / units * 1e9
        assert float(bound.per_byte) * (1 - 1e-8) <= found
        assert found <= float(bound.per_byte) * 1.03


def test_links_past_a_rank_are_no_edges():
    line = Topology("line", "a test")
    hosts = [line.add(f"host{i}", Kind.HOST) for i in range(4)]
    for a, b in pairwise(hosts):
        line.link(a, b, LinkKind.NETWORK, 1.0)
    usable = links_of(line).usable.reshape(4, 4)
    assert [(int(u), int(v)) for u, v in np.argwhere(usable)] == [
        *[(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    ]


def test_reversed_links_are_those_of_the_other_direction():
    topology = Topology.load("dgx1v", hosts=2)
    pairs, back = links_of(topology), links_of(topology, reverse=True)
    n = pairs.size
    for u, v in product(range(0, n, 5), repeat=2):
        forth = slice(pairs.first[u * n + v], pairs.first[u * n + v + 1])
        other = slice(back.first[v * n + u], back.first[v * n + u + 1])
        assert sorted(pairs.links[forth]) == sorted(back.links[other])
