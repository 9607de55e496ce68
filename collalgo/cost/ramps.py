"""The least time of a broadcast in rounds between hosts, whose links fill in steps.

Let the links out of the host of the root carry C, into each of K other hosts on average
no more. A step between hosts takes at least a seconds and d_s seconds of bytes, D in
all of them; steps inside hosts take I seconds together. Take sets of ranks that grow
from step to step: first the root alone, then its host, then all but another host, last
all but one rank of that. All data moves in some step from a rank inside the set before
it to one outside the set after it, so the bytes are at most what these moves carry:

- while the set is the root: at most R, the links of the root, also inside its host;
- in step i, after which the set is the host: r, what the root sends to other hosts;
- then C, and in step m, after which another host is missing: C / K on average;
- then C again, and in step j, after which only a rank is missing: C / n on average over
  the n ranks of a host, and later at most R', the links of a rank.

So for all i < m < j, with D_i for the steps before i and after j,

    bytes <= C (D + (1 + b) I - (f d_i - b D_i) - w d_m - (f' d_j - b' D_j))

with f = 1 - r / C, b = R / C - 1, f' = 1 - 1 / n, b' = R' / C - 1 and w = 1 - 1 / K,
and with the greater of b and b' for steps inside hosts.
Let X, Y and Z be the largest of the three terms for i in the first p steps, m in the
M steps after them and j in the last q steps. The first steps grow by 1 + b / f at most,
so

    D <= X G(p) + Y M / w + Z G'(q), where G(p) = ((1 + b / f) ** p - 1) / b.

``D >= bytes / C + Y``, as is seen without the ramps, and the least of D + I for this D
has ``I = (X + Z) / (1 + b)``. So all takes ``S a + (1 + 1 / Q) bytes / C`` at least,
with S = p + M + q steps, for the greatest Q of ``(1 + b) G(p)``, ``M / w - 1`` and
``(1 + b) G'(q)``. The S-th of these numbers in ascending order is the least Q.

A reduce is a broadcast from its end to its beginning.
"""

from collections.abc import Iterator
from fractions import Fraction
from heapq import merge
from itertools import count
from math import inf
from typing import NamedTuple

import numpy as np

from collalgo.cost.cuts import Network
from collalgo.cost.flows import DeviceSet
from collalgo.cost.routing import Routing
from collalgo.topology.model import Link

#: The most ranks of other hosts.
MOST_TARGETS = 1024


class Ramp(NamedTuple):
    """How fast the steps at an end of a broadcast can become longer.

    Attributes
    ----------
    idle : float
        The part of the links between hosts that is idle in the first step: f above.
    excess : float
        The part by which a rank exceeds these links: b above.
    """

    idle: float
    excess: float

    def filled(self, inside: float) -> Iterator[float]:
        """The numbers Q of 1, 2, ... steps; none if the links are never idle.

        Parameters
        ----------
        inside
            The excess of steps inside hosts.
        """
        if self.idle <= 0:
            return
        total, step = 0.0, 1 / self.idle
        while total < inf:
            total += step
            yield (1 + inside) * total
            step *= 1 + self.excess / self.idle


class Ramps(NamedTuple):
    """The least time of a broadcast in rounds between hosts.

    Attributes
    ----------
    per_byte : float
        Seconds per 10^9 bytes out of the host of the root.
    latency : float
        The least latency between two hosts.
    late : float
        The part of the data of a step that a host has only after the next one.
    ends : tuple of Ramp
        The ramps from the root, and to the ranks of other hosts.
    """

    per_byte: float
    latency: float
    late: float
    ends: tuple[Ramp, ...]

    def seconds(self, nbytes: float) -> float:
        """The least seconds for a number of bytes, in any number of steps."""
        by_bytes, best = self.per_byte * nbytes / 1e9, inf
        inside = max(end.excess for end in self.ends)
        filled = [end.filled(inside) for end in self.ends]
        if self.late:
            filled.append(steps / self.late - 1 for steps in count(1))
        for steps, number in enumerate(merge(*filled), 1):
            if steps * self.latency + by_bytes >= best:
                break
            rest = by_bytes / number if number else inf
            best = min(best, steps * self.latency + by_bytes + rest)
        return best if best < inf else by_bytes


def ramps_between(
    network: Network,
    root: str,
    fed: tuple[Fraction, int],
    latency: float,
    routes: Routing,
    reverse: bool,
) -> Ramps | None:
    """The least time between hosts; None for many ranks, and where no ramp delays it.

    Parameters
    ----------
    network, routes
        The links and the routes.
    root
        The device of the root.
    fed
        The GB/s out of the host of the root, and the number of hosts that receive no
        more on average.
    latency
        The least latency between two hosts.
    reverse
        Whether data goes to the root.
    """
    (home,) = (host for host in network.hosts if root in host)
    away = [rank for rank in network.ranks if rank not in home]
    out, number = fed
    fastest = max(_rate(network, rank) for rank in away)
    excess = [float(rate / out) - 1 for rate in (_rate(network, root), fastest)]
    if not number or min(excess) < 0 or len(away) > MOST_TARGETS:
        return None
    others = [host for host in network.hosts if host is not home]
    fewest = min(network.ranks_in(host) / network.number([host]) for host in others)
    own = _own_rate(network, root, home, routes, reverse)
    idle = max(0.0, 1 - own / float(out)), 1 - 1 / fewest
    if not any(idle):
        return None
    ends = tuple(map(Ramp, idle, excess))
    return Ramps(float(1 / out), latency, 1 - 1 / number, ends)


def _rate(network: Network, rank: str) -> Fraction:
    """The GB/s out of a rank, over all its links."""
    alone = frozenset([rank])
    return network.leaving(alone) / network.number([alone])


def _own_rate(
    network: Network, root: str, home: DeviceSet, routes: Routing, reverse: bool
) -> float:
    """The most GB/s of messages from the root to other hosts, or from these to it.

    All take links between hosts, and no more than these carry that some message takes;
    or they all take one link.
    """
    away = np.array([i for i, one in enumerate(network.ranks) if one not in home])
    ends = np.full(len(away), network.ranks.index(root)), away
    _, loads = routes.link_loads(*(ends[::-1] if reverse else ends))
    least, times = np.full(len(routes.speed), inf), np.zeros(len(routes.speed))
    np.minimum.at(least, loads.link, loads.part)
    np.add.at(times, loads.link, 1)
    common = (routes.speed / least)[times == len(away)]
    across = [
        routes.speed[number]
        for number in np.flatnonzero(times)
        if _crosses(*routes.directed_link(int(number)), home) == (not reverse, reverse)
    ]
    return min(float(common.min(initial=inf)), sum(across) or inf) / 1e9


def _crosses(link: Link, forward: bool, home: DeviceSet) -> tuple[bool, bool]:
    """Whether a directed link begins in a host, and whether it ends there."""
    start, end = link.ends if forward else link.ends[::-1]
    return start in home, end in home
