"""The least time of trees over the routes of messages."""

import sys
from functools import partial
from itertools import product

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

from collalgo import Topology
from collalgo.cost import tree_bounds
from collalgo.cost.bounds import bound
from collalgo.cost.joint_edges import JointEdges
from collalgo.cost.placement import Placement
from collalgo.cost.routed_edges import (
    BOTH_WAYS,
    OF_ALL,
    OF_ONE,
    PATHS,
    REVERSED,
    RoutedEdges,
)
from collalgo.cost.tree_bounds import tree_seconds
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.places import ranks_of
from tests.support.host_networks import unmirrored

NBYTES = 1 << 30
ALL = (*OF_ALL, *OF_ONE, *PATHS, *BOTH_WAYS)


def uneven(size):
    """Hosts with links of different speeds between some of them."""
    machine = Topology("uneven", "a test")
    names = [machine.add(f"host{i}", Kind.HOST) for i in range(size)]
    for i, name in enumerate(names[1:], 1):
        machine.link(name, names[i // 2], LinkKind.NETWORK, float(3 + i))
    for i in range(1, size - 1):
        machine.link(names[i], names[i + 1], LinkKind.NETWORK, float(1 + i % 2))
    return machine


def trees(size, root):
    """The edges of all trees from a root."""
    others = [rank for rank in range(size) if rank != root]
    for parents in product(range(size), repeat=size - 1):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(size))
        graph.add_edges_from(zip(parents, others, strict=True))
        if nx.is_arborescence(graph):
            yield [*graph.edges]


def busy_links(collective, routes, size, edges):
    """The seconds of each link for a byte of the buffer over a tree."""
    ends = [(b, a) if collective in REVERSED else (a, b) for a, b in edges]
    parts = np.full(len(edges), 1 / size if collective in OF_ALL else 1.0)
    if collective in PATHS:
        graph = nx.DiGraph(edges)
        below = [len(nx.descendants(graph, b)) + 1 for _, b in edges]
        parts = np.array(below) / size
    if collective in BOTH_WAYS:
        ends, parts = ends + [(b, a) for a, b in ends], np.tile(parts, 2)
    _, loads = routes.link_loads(*np.array(ends).T)
    busy = parts[loads.message] * loads.part / routes.speed[loads.link]
    return np.bincount(loads.link, busy, len(routes.speed))


def brute_force(collective, machine, root):
    """The least time of any parts of all trees, by a linear programme of all."""
    routes, size = Placement(machine).routes, len(machine.hosts)
    roots = [*range(size)] if collective in OF_ALL else [root]
    every = [(one, edges) for one in roots for edges in trees(size, one)]
    columns = [busy_links(collective, routes, size, edges) for _, edges in every]
    loads = np.array(columns).T
    scale = loads.max()
    of_root = np.array([one for one, _ in every]) == np.array(roots)[:, None]
    found = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_ub=np.column_stack([loads / scale, -np.ones(len(loads))]),
        b_ub=np.zeros(len(loads)),
        A_eq=np.column_stack([of_root, np.zeros(len(roots))]),
        b_eq=np.ones(len(roots)),
    )
    return found.fun * scale


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("collective", ALL)
def test_prices_prove_the_time_of_the_best_of_all_trees(collective, size):
    machine, root = uneven(size), size - 1
    seconds, exact = tree_seconds(collective, Placement(machine).routes, size, root)
    assert exact
    assert seconds == pytest.approx(brute_force(collective, machine, root), rel=1e-4)


@pytest.mark.parametrize("collective", ALL)
@pytest.mark.parametrize("extra", [0, 1])
def test_only_what_some_trees_attain_is_exact(monkeypatch, collective, extra):
    monkeypatch.setattr(tree_bounds, "AS_GOOD", 1e-4)  # else prices are no proof
    machine = unmirrored(extra)
    size = len(machine.hosts)
    best = brute_force(collective, machine, 0)
    seconds, exact = tree_seconds(collective, Placement(machine).routes, size, 0)
    assert seconds <= best
    assert exact == (seconds == pytest.approx(best, rel=1e-3, abs=0.0))
    assert exact == (collective not in BOTH_WAYS or extra == 1)


@pytest.mark.parametrize("failure", [{"success": False}, {"marginals": 0.0}])
def test_without_a_packing_the_prices_before_are_the_proof(monkeypatch, failure):
    marginals = failure.pop("marginals", None)

    def failing(*given, **named):
        found = linprog(*given, **named)
        found.update(failure)
        if marginals is not None:
            found.ineqlin.marginals *= marginals
        return found

    monkeypatch.setattr("scipy.optimize.linprog", failing)
    routes = Placement(uneven(4)).routes
    seconds, exact = tree_seconds("allgather", routes, 4, 0)
    assert 0 < seconds <= brute_force("allgather", uneven(4), 0)
    assert not exact


@pytest.mark.parametrize("collective", ALL)
def test_no_algorithm_is_faster_than_trees_over_its_routes(collective):
    """Not even those of an allreduce whose messages are no trees."""
    machine = uneven(7)
    seconds, _ = tree_seconds(collective, Placement(machine).routes, 7, 0)
    pricer = TopologyPricer(machine)
    able, _ = pricer.applicable(collective)
    priced = pricer.priced(able)
    assert len(priced) > 3
    for one in priced:
        bytes_alone = float(one.price.seconds(NBYTES) - one.price.seconds(0.0))
        assert bytes_alone >= seconds * NBYTES * (1 - 1e-6), one.row.name


def test_where_routes_load_links_unevenly_the_bound_is_that_of_trees():
    """What the GPUs of a DGX-1 send to other hosts shares links with the rest."""
    machine = Topology.load("dgx1", hosts=2)
    found = bound("allgather", machine)
    assert "over their routes: the linear programme" in found.reason
    assert found.exact
    by_cut = bound("allgather", machine, kinds=LinkKind)  # whatever the routes
    assert float(found.per_byte) > 1.08 * float(by_cut.per_byte)


def test_without_scipy_the_cut_is_taken(monkeypatch):
    machine = Topology.load("dgx1", hosts=2)
    by_trees = bound("allreduce", machine)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    by_cut = bound("allreduce", machine)
    assert 0 < by_cut.per_byte < by_trees.per_byte
    monkeypatch.setattr(tree_bounds.RoutedEdges, "cheapest", None)  # for nothing
    assert bound("allreduce", machine) == by_cut
    assert "linear programme" not in by_cut.reason


ALIKE = [
    partial(Topology.load, "torus", dims=(3, 4)),
    partial(Topology.load, "mesh", dims=(2, 3)),
    partial(Topology.load, "mi250x"),
    partial(Topology.load, "dgx_h100", hosts=2),
    partial(uneven, 5),
]


@pytest.mark.parametrize("make", ALIKE)
def test_links_that_are_alike_count_as_one_where_ranks_are_many(monkeypatch, make):
    machine = make()
    routes, size = Placement(machine).routes, len(ranks_of(machine))
    few = {one: tree_seconds(one, routes, size, 0) for one in ALL}
    monkeypatch.setattr(tree_bounds, "_edges", joint_edges)
    for collective, (expected, _) in few.items():
        seconds, _ = tree_seconds(collective, routes, size, 0)
        assert seconds == pytest.approx(expected, rel=1e-4), collective


def joint_edges(collective, routes, size, root, _):
    """The edges of trees of many ranks."""
    links = JointEdges(routes, size, collective, root)
    return links, links.roots


def test_only_links_between_unlike_ranks_count_each():
    routes = Placement(Topology.load("dgx_h100", hosts=2)).routes
    assert JointEdges(routes, 16, "allgather", 0).count == 6
    assert RoutedEdges(routes, 16, "allgather").count > 100


def test_very_many_ranks_have_the_bound_of_cuts(monkeypatch):
    monkeypatch.setattr(tree_bounds, "MOST", 4)
    machine = uneven(5)
    assert tree_seconds("broadcast", Placement(machine).routes, 5, 0) is None
