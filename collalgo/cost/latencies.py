"""Lower bounds of latency, by the distance and by the number of ranks."""

from collections.abc import Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from math import comb

import numpy as np

from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.routing import Routes
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.topology.model import Topology
from collalgo.topology.places import host_after_host, ranks_of
from collalgo.topology.twins import Twins

#: The most ranks whose latencies are compared, if the hosts are not uniform.
SAMPLED = 128

#: Collectives in which no rank sends anything to all others.
COLLECTING = ("reduce", "gather")


def least_latency(
    collective: str,
    machine: Topology | UniformCluster,
    link_model: LinkModel = DEFAULTS,
    root: int = 0,
) -> float:
    """The least seconds of a collective without bytes.

    A word takes at least the fastest chain of messages to the farthest rank: from the
    root, if the collective has one, else from any rank. To reach all ranks it takes at
    least the optimal broadcast tree (Karp, Sahay, Santos and Schauser 1993), in which
    each informed rank keeps sending, and all ranks are as near as the nearest two.
    """
    topology, count, first = _with_root(machine, root)
    direct = _latencies(topology, link_model, first)
    chains = _chains(direct)
    farthest = float((chains[0] if COLLECTIVES[collective].rooted else chains).max())
    if collective in COLLECTING:
        return farthest
    nearest = _nearest(direct)
    return max(
        farthest, broadcast_time(count, nearest, min(link_model.message, nearest))
    )


def nearest_latency(machine: Topology | UniformCluster, link_model: LinkModel) -> float:
    """The least seconds of a message between any two ranks."""
    topology, _, first = _with_root(machine, 0)
    return _nearest(_latencies(topology, link_model, first))


def nearest_latencies(
    machine: Topology | UniformCluster, link_model: LinkModel
) -> tuple[float, float]:
    """The least seconds of a message between any two ranks, and between two hosts.

    They are 0 for more ranks than are compared, and that of hosts also for one host.
    """
    topology, _, first = _with_root(machine, 0)
    reduced, devices = _compared(topology, first)
    if len(devices) < len(ranks_of(reduced)):
        return 0.0, 0.0
    direct = _between(reduced, devices, link_model)
    names = [reduced.device(one).host or one for one in devices]
    hosts = np.unique(names, return_inverse=True)[1]
    apart = hosts[:, None] != hosts
    of_hosts = float(direct[apart].min()) if apart.any() else 0.0
    return _nearest(direct), of_hosts


def _nearest(direct: Reals) -> float:
    """The least latency between two different ranks."""
    return float(direct[~np.eye(len(direct), dtype=bool)].min())


def _with_root(
    machine: Topology | UniformCluster, root: int
) -> tuple[Topology, int, str]:
    """The topology to search, the number of all ranks, and the device of the root.

    Two hosts represent a cluster, with the root at its position in the first one.
    """
    if isinstance(machine, Topology):
        cluster = UniformCluster.of(machine)
        device = ranks_of(machine)[root]
        if cluster is None:
            return machine, len(ranks_of(machine)), device
        root = host_after_host(machine).index(device)
        machine = cluster
    devices = machine.host_devices
    return machine.pair, machine.size, devices[root % len(devices)]


def _latencies(topology: Topology, link_model: LinkModel, root: str) -> Reals:
    """The latency in seconds between any two ranks, those of the root first."""
    return _between(*_compared(topology, root), link_model)


def _compared(topology: Topology, root: str) -> tuple[Topology, list[str]]:
    """A topology with the latencies of all, and its ranks to compare, the root first.

    Twins are as far from others as each other, and two of each kind are kept.
    """
    twins = Twins(topology)
    reduced, first = twins.reduced, twins.kept(root)[0]
    others = [device for device in ranks_of(reduced) if device != first]
    return reduced, [first, *others[: SAMPLED - 1]]


def _between(reduced: Topology, devices: Sequence[str], link_model: LinkModel) -> Reals:
    """The latency in seconds between any two of some ranks."""
    near = reduced.part({*devices, *_relays(reduced)})
    latency = Routes(near, devices, link_model).latency
    return np.array([[latency(a, b) for b in devices] for a in devices])


def _relays(topology: Topology) -> Iterator[str]:
    """The devices that paths may lead through: those with several links."""
    devices = (device.id for device in topology.devices())
    return (device for device in devices if topology.degree(device) > 1)


def _chains(direct: Reals) -> Reals:
    """The least latencies through any intermediate ranks (Floyd, Warshall)."""
    least: Reals = direct.copy()
    np.fill_diagonal(least, 0.0)
    for relay in range(len(least)):
        through = least[:, relay, None] + least[None, relay, :]
        np.minimum(least, through, out=least)
    return least


@cache
def broadcast_time(ranks: int, latency: float, gap: float) -> float:
    """The time of a broadcast by the greedy tree.

    Examples
    --------
    >>> broadcast_time(8, 1.0, 1.0)  # the binomial tree
    3.0
    >>> broadcast_time(8, 8.0, 0.0)  # all at once
    8.0
    """
    if ranks < 2 or not latency:
        return 0.0
    if not gap:
        return latency
    left = ranks - 1
    arrivals = [(latency, 1, 0)]  # time, messages in the chain, gaps waited for
    while True:
        time, hops, gaps = heappop(arrivals)
        left -= comb(hops + gaps - 1, gaps)
        if left <= 0:
            return time
        heappush(arrivals, (hops * latency + (gaps + 1) * gap, hops, gaps + 1))
        if not gaps:
            heappush(arrivals, ((hops + 1) * latency, hops + 1, 0))
