"""Lower bounds of latency, against closed forms and all schedules."""

from heapq import heappush, heapreplace

import pytest

from collalgo import Topology
from collalgo.cost.bounds import bound
from collalgo.cost.latencies import broadcast_time
from collalgo.topology.model import Kind, LinkKind


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 17, 64, 100])
def test_with_a_gap_of_the_latency_ranks_double(ranks):
    assert broadcast_time(ranks, 2.0, 2.0) == 2.0 * (ranks - 1).bit_length()


def test_with_a_short_gap_the_tree_is_that_of_karp():
    """The published tree: P = 8, L + 2 o = 10, g = 4 reaches the last rank at 24."""
    assert broadcast_time(8, 10.0, 4.0) == 24.0


def test_a_word_goes_around_half_a_ring():
    ring = Topology.load("torus", dims=(12,), latency=1e-6)
    assert bound("allreduce", ring).latency == pytest.approx(6e-6)
    assert bound("reduce", ring).latency == pytest.approx(6e-6)


def test_a_barrier_is_bounded_by_latency_alone():
    machine = Topology.load("dgx_a100")
    least = bound("barrier", machine)
    assert least.bandwidth == float("inf")
    assert least.seconds(0) == pytest.approx(broadcast_time(8, 0.6e-6, 0.3e-6))
    assert "to reach every rank" in least.why(0)


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "gather", "scatter"])
def test_a_word_of_a_rooted_collective_begins_or_ends_at_the_root(collective):
    line = Topology("line")
    for host in "abc":
        line.add(host, Kind.HOST, host=host)
    line.link("a", "b", LinkKind.NETWORK, 1.0, latency=1e-3)
    line.link("b", "c", LinkKind.NETWORK, 1.0, latency=1e-3)
    least = [bound(collective, line, root).latency for root in range(3)]
    assert least == pytest.approx([2e-3, 1e-3, 2e-3], rel=1e-2)
    assert bound("allreduce", line, 1).latency == pytest.approx(2e-3)


@pytest.mark.parametrize(("latency", "gap"), [(10.0, 4.0), (3.0, 1.0), (5.0, 5.0)])
def test_the_tree_is_the_greedy_one(latency, gap):
    arrivals, last = [latency], 0.0  # of the next message of each informed rank
    for ranks in range(2, 300):
        last = heapreplace(arrivals, arrivals[0] + gap)
        heappush(arrivals, last + latency)
        assert broadcast_time(ranks, latency, gap) == last
