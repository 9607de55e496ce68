"""The bound of an alltoallv: every cut holds, and some flow attains it."""

import random
import sys
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology, TopologyError, bound, select
from collalgo.cost import matrix_flow
from collalgo.cost.arcs import Arcs
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.cuts import GRAIN, Network
from collalgo.cost.matrix_bounds import matrix_bound
from collalgo.cost.matrix_flow import proved_seconds
from collalgo.cost.placement import Placement
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network

#: The rounding of speeds, and that of lengths of links.
ROUNDED = 1e-6


def matrix(size, seed, zeros=0.4, skew=20):
    """Bytes of which some are none, and some a million times others."""
    chance = random.Random(f"{seed} {size}")
    return ByteMatrix(
        [
            [0 if chance.random() < zeros else int(2 ** (chance.random() * skew))
             for _ in range(size)]
            for _ in range(size)
        ]
    )  # fmt: skip


def every_cut(topology, sent):
    """The most seconds for 10^9 bytes across any cut of hosts, by brute force."""
    net = Network(topology)
    number = {rank: i for i, rank in enumerate(net.ranks)}
    found = [Fraction(0)]
    for count in range(1, len(net.ranks)):
        for side in combinations(net.ranks, count):
            inside = [number[rank] for rank in side]
            outside = [i for i in range(len(net.ranks)) if i not in inside]
            across = int(sent.nbytes[inside][:, outside].sum())
            found.append(Fraction(across, sent.total) / net.leaving(frozenset(side)))
    return max(found)


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_no_cut_allows_less_than_the_bound(size, seed):
    """Among the speeds are 1/3 and others that no fraction of them is."""
    topology, sent = network(size, extra=1.0, seed=seed), matrix(size, seed)
    found = bound("alltoallv", topology, counts=sent)
    if sent.total:
        assert found.per_byte >= every_cut(topology, sent) * Fraction(1 - ROUNDED)
        assert found.exact


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.integers(0, 10_000), st.data())
def test_any_lengths_of_links_prove_at_most_the_bound(size, seed, data):
    """So a solver that is wrong, or is stopped early, can make no bound too high."""
    topology, sent = network(size, extra=1.0, seed=seed), matrix(size, seed, zeros=0)
    arcs = Arcs.of_routes(Placement(topology).routes, size)
    lengths = st.lists(st.integers(0, 9), min_size=len(arcs.capacity))
    drawn = np.array(data.draw(lengths))[: len(arcs.capacity)]
    best = bound("alltoallv", topology, counts=sent).per_byte
    assert proved_seconds(arcs, sent, drawn) <= best * Fraction(1 + ROUNDED)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_equal_bytes_of_all_pairs_have_the_bound_of_an_alltoall(size):
    topology = Topology.load("fully_connected", hosts=size)
    whole = ByteMatrix(np.full((size, size), 1 << 20))
    of_all = bound("alltoallv", topology, counts=whole).seconds(whole.total)
    alltoall = bound("alltoall", topology).seconds(size << 20)
    assert of_all == pytest.approx(alltoall, rel=1e-6)


def test_two_ways_share_the_bytes_of_one_pair_by_their_speeds():
    """Two ways of 1 and of 1/3 GB/s: 4/3 GB/s in all, no power of two."""
    topology = Topology("two_ways", "a test")
    hosts = [topology.add(f"host{i}", Kind.HOST) for i in range(3)]
    for a, b, speed in ((0, 1, 1 / 3), (0, 2, 1.0), (2, 1, 1.0)):
        topology.link(hosts[a], hosts[b], LinkKind.NETWORK, speed, latency=1e-6)
    sent = ByteMatrix([[0, 10**9, 0], [0, 0, 0], [0, 0, 0]])
    found = bound("alltoallv", topology, counts=sent)
    assert found.bandwidth == pytest.approx(4 / 3, rel=1e-8)
    assert found.reason.startswith("host0 (1 of 3 ranks) must send 1 of the")


def test_a_flow_over_links_takes_any_paths():
    sent = ByteMatrix(np.full((32, 32), 1 << 20))
    by_links = matrix_bound(Network(Topology.load("cpu2s")), sent)
    assert "over any paths: the linear programme" in by_links.reason


def test_an_alltoall_has_the_bound_of_its_flows(monkeypatch):
    topology = Topology.load("cpu2s")
    by_flow = bound("alltoall", topology)
    monkeypatch.setattr(matrix_flow, "_proposed", lambda *_: None)
    by_cut = bound("alltoall", topology)
    assert float(by_flow.per_byte) > 1.5 * float(by_cut.per_byte)
    assert by_flow.exact
    assert select("alltoall", "1G", topology=topology).ratio >= 1 - 1e-6


def test_data_takes_the_routes_of_messages():
    """Of two hosts of a server the routes to NICs leave some of the links unused."""
    topology = Topology.load("server8", hosts=2)
    sent = ByteMatrix(np.full((16, 16), 1 << 20))
    by_links = matrix_bound(Network(topology), sent)
    by_routes = matrix_bound(Network(topology), sent, Placement(topology).routes)
    assert float(by_routes.per_byte) > float(by_links.per_byte) * 1.05
    assert "over the routes of messages: the linear programme" in by_routes.reason
    assert bound("alltoallv", topology, counts=sent).per_byte == by_routes.per_byte


def test_without_scipy_the_best_cut_is_taken(monkeypatch):
    topology, sent = Topology.load("dgx1v"), matrix(8, 3)
    exact = bound("alltoallv", topology, counts=sent)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    by_cut = bound("alltoallv", topology, counts=sent)
    assert 0 < by_cut.per_byte <= exact.per_byte * Fraction(1 + ROUNDED)
    assert not by_cut.exact


def test_a_solver_that_fails_leaves_the_best_cut(monkeypatch):
    topology, sent = Topology.load("dgx1v"), matrix(8, 3)
    monkeypatch.setattr(matrix_flow, "_proposed", lambda *_: None)
    assert not bound("alltoallv", topology, counts=sent).exact


def test_no_bytes_take_no_time():
    topology = Topology.load("dgx1v")
    found = bound("alltoallv", topology, counts=np.zeros((8, 8), int))
    assert found.seconds(0) == 0
    one = np.zeros((8, 8), int)
    one[2, 3] = 1
    assert 0 < bound("alltoallv", topology, counts=one).latency < 1e-6


@pytest.mark.parametrize(
    ("collective", "counts", "words"),
    [
        ("alltoallv", None, "alltoallv has no counts"),
        (
            "alltoall",
            [[0, 1], [1, 0]],
            "alltoall has counts, which are for an alltoallv",
        ),
        ("alltoallv", [[0, 1], [1, 0]], "for 2 ranks but there are 8"),
    ],
)
def test_counts_that_do_not_suit_are_refused(collective, counts, words):
    with pytest.raises(TopologyError, match=words):
        bound(collective, Topology.load("dgx1v"), counts=counts)


def test_speeds_are_rounded_up_so_that_no_bound_is_too_high():
    arcs = Arcs.of_links(Network(network(4, seed=1)))
    speeds = [capacity / 1e9 for capacity in arcs.capacity]
    assert all(any(0 <= a - b < 1e-8 for b in (1, 1 / 3, 2.5, 5, 7)) for a in speeds)
    assert GRAIN == 10**9
