"""How long the first word needs: lower bounds by hops and by the number of ranks."""

from functools import cache
from heapq import heappop, heappush
from math import comb

import numpy as np

from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.routing import Routes, ranks_of
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule.transfers import Reals
from collalgo.topology.model import Topology

#: With more ranks than this that are not alike, only so many are looked at.
LOOKED_AT = 128

#: In these nothing goes from one rank to all others.
COLLECTING = ("reduce", "gather")


def least_latency(
    collective: str, machine: Topology | UniformCluster, figures: LinkModel = DEFAULTS
) -> float:
    """Seconds that a collective takes at least without any bytes.

    A word needs the fastest chain of messages to the rank that is farthest; and if it
    must reach all ranks, these cannot be told faster than by the best tree (Karp,
    Sahay, Santos and Schauser 1993), in which every rank that knows goes on telling
    others, all as near as the nearest two ranks are.
    """
    if isinstance(machine, Topology):
        machine = UniformCluster.of(machine) or machine
    if isinstance(machine, UniformCluster):
        topology, count = machine.pair, machine.size
    else:
        topology, count = machine, len(ranks_of(machine))
    direct = _latencies(topology, figures)
    apart = direct[~np.eye(len(direct), dtype=bool)]
    farthest = float(_chains(direct).max())
    if collective in COLLECTING:
        return farthest
    nearest = float(apart.min())
    return max(farthest, telling(count, nearest, min(figures.message, nearest)))


def _latencies(topology: Topology, figures: LinkModel) -> Reals:
    """Seconds of a message between any two of the ranks."""
    places = ranks_of(topology)[:LOOKED_AT]
    count = len(places)
    source, target = np.divmod(np.arange(count * count), count)
    found, _ = Routes(topology, places, figures).trips(source, target)
    return found.reshape(count, count)


def _chains(direct: Reals) -> Reals:
    """The least sums of latencies over any ranks on the way (Floyd, Warshall)."""
    least: Reals = direct.copy()
    np.fill_diagonal(least, 0.0)
    for relay in range(len(least)):
        through = least[:, relay, None] + least[None, relay, :]
        np.minimum(least, through, out=least)
    return least


@cache
def telling(ranks: int, latency: float, gap: float) -> float:
    """The time in which one rank can tell all others, by the greedy tree.

    Examples
    --------
    >>> telling(8, 1.0, 1.0)  # the binomial tree
    3.0
    >>> telling(8, 8.0, 0.0)  # all at once
    8.0
    """
    if ranks < 2 or not latency:
        return 0.0
    if not gap:
        return latency
    left = ranks - 1
    arrivals = [(latency, 1, 0)]  # by how many messages, behind how many others
    while True:
        time, hops, gaps = heappop(arrivals)
        left -= comb(hops + gaps - 1, gaps)
        if left <= 0:
            return time
        heappush(arrivals, (hops * latency + (gaps + 1) * gap, hops, gaps + 1))
        if not gaps:
            heappush(arrivals, ((hops + 1) * latency, hops + 1, 0))
