"""The least time of trees over the routes of messages."""

import sys
from itertools import product

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

from collalgo import Topology
from collalgo.cost import tree_bounds
from collalgo.cost.bounds import bound
from collalgo.cost.placement import Placement
from collalgo.cost.tree_bounds import BOTH_WAYS, OF_ALL, PATHS, REVERSED, tree_seconds
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.model import Kind, LinkKind

NBYTES = 1 << 30
ALL = (*OF_ALL, *tree_bounds.OF_ONE, *PATHS, *BOTH_WAYS)


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
    assert "linear programme" not in by_cut.reason


def test_many_ranks_have_the_bound_of_cuts(monkeypatch):
    monkeypatch.setattr(tree_bounds, "MOST_RANKS", 4)
    machine = uneven(5)
    assert tree_seconds("broadcast", Placement(machine).routes, 5, 0) is None
