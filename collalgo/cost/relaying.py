"""The least time of a broadcast in rounds, where ranks relay what they have received.

What a rank receives in a step it passes on in a later one. Let K parts of the ranks
receive data from that of the root, over links that carry on average no more than the C
out of the part of the root, in S steps of at least a seconds each and d_1, ..., d_S
seconds of bytes, D in total. By the end of step s the root has sent C (d_1 + ... + d_s)
bytes at most, and of those of step s a part has 1 / K on average, and the rest only
later. So for any s, also for the longest step,

    bytes <= C (D - d_s (1 - 1 / K)) <= C D (1 - (1 - 1 / K) / S).

The least of S a + D over all S is ``(sqrt(bytes / C) + sqrt((1 - 1 / K) a)) ** 2``.

A step in which ranks send and receive m messages at most takes another (m - 1) g
seconds. If each message carries c bytes a second at most, a part of n ranks sends and
receives y = min(1, n m c / C) d times C bytes in d seconds, and the sum above holds for
y instead of d. The seconds of a step are least for some m, so they are a concave
function f of y, and a step takes at least y / x times those of the step with the most
data, x. With w = 1 - 1 / K all take (bytes / C + w x) f(x) / x at least, which is for
each m at least ``(sqrt(b bytes / C) + sqrt(w (a + (m - 1) g))) ** 2`` with
b = max(1, C / (n m c)). The least of these over all m is a bound.

A reduce is a broadcast from its end to its beginning.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from collalgo.cost.cuts import Network
from collalgo.cost.flows import DeviceSet
from collalgo.cost.latencies import nearest_latencies
from collalgo.cost.link_model import LinkModel
from collalgo.cost.lower_bound import LeastInRounds, Relay
from collalgo.cost.ramps import ramps_between
from collalgo.cost.routed_edges import OF_ONE, REVERSED
from collalgo.cost.routing import Routing
from collalgo.cost.spreading import spread_over
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.topology.model import Topology

#: The most ranks of which the fastest message is found.
FEW = 16


def relays(
    collective: str,
    network: Network,
    machine: Topology | UniformCluster,
    root: str,
    link_model: LinkModel,
    routes: Routing | None = None,
) -> tuple[LeastInRounds, ...]:
    """The least times of a broadcast or reduce between single ranks, and hosts."""
    if collective not in OF_ONE:
        return ()
    ranks = [frozenset([rank]) for rank in network.ranks]
    found: list[LeastInRounds] = []
    latencies = nearest_latencies(machine, link_model)
    for parts, latency in zip((ranks, network.hosts), latencies, strict=True):
        if not latency:
            continue
        out, number = fed = _from_root(network, parts, root)
        per_byte, gap = float(1 / out), link_model.message
        late = 1 - 1 / number if number else 0.0
        full = _full(network, parts, float(out), routes)
        found.append(Relay(per_byte, late * latency, late * gap, full))
        found.append(spread_over(per_byte, number, _most(network, parts), latency, gap))
        if parts is network.hosts and routes is not None:
            reverse = collective in REVERSED
            one = ramps_between(network, root, fed, latency, routes, reverse)
            found += [one] if one else []
    return tuple(found)


def _most(network: Network, parts: Sequence[DeviceSet]) -> int:
    """The most ranks of a part."""
    return max(network.ranks_in(part) // network.number([part]) for part in parts)


def _full(
    network: Network, parts: Sequence[DeviceSet], out: float, routes: Routing | None
) -> float:
    """The number of messages of a rank that fill the links of a part, or 1."""
    if routes is None or network.counts or len(network.ranks) > FEW:
        return 1.0
    part_of = {rank: i for i, part in enumerate(parts) for rank in part}
    of_rank = np.array([part_of[rank] for rank in network.ranks])
    source, target = np.nonzero(of_rank[:, None] != of_rank)
    _, loads = routes.link_loads(source, target)
    slowest = np.zeros(len(source))
    np.maximum.at(slowest, loads.message, loads.part / routes.speed[loads.link])
    fastest = 1e-9 / slowest.min()
    most = int(np.bincount(of_rank).max())
    return max(1.0, float(out / (fastest * most)))


def _from_root(
    network: Network, parts: Sequence[DeviceSet], root: str
) -> tuple[Fraction, int]:
    """The GB/s out of the part of the root, and the most others that receive no more.

    Their links carry on average no more than those of the root.
    """
    (first,) = (part for part in parts if root in part)
    out = network.leaving(first)
    number, total = 0, Fraction(0)
    for each, count in sorted(_receiving(network, parts, first)):
        fits = count
        if each > out:  # as many as the slower ones before make up for
            fits = min(count, int((number * out - total) / (each - out)))
        number, total = number + fits, total + fits * each
        if fits < count:
            break
    return out, number


def _receiving(
    network: Network, parts: Sequence[DeviceSet], first: DeviceSet
) -> Iterator[tuple[Fraction, int]]:
    """The GB/s into each other part, and the number of parts that it represents."""
    for part in parts:
        if part is not first:
            count = network.number([part])
            yield network.leaving(part) / count, count
