"""The tuning model of NCCL 2.30: ring or tree, and which protocol, by predicted time.

The constants are those of its ``src/graph/tuning.cc``, in microseconds and GB/s.
Switches that reduce (NVLS, CollNet) are left out; the rings of NVLinks and the NICs of
a host replace its search for graphs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from math import ceil, log2
from typing import NamedTuple

#: The base latency of each algorithm, for the protocols LL, LL128 and Simple.
BASE = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}

#: A hop over NVLink, PCIe, and the network.
HOPS = {
    "nvlink": {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)},
    "pcie": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)},
    "network": {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)},
}

PROTOCOLS = ("LL", "LL128", "Simple")

#: The overhead of a network step beyond the latency of the ring inside a host.
NET_OVERHEAD = 1.0


#: Sizes from this on, which no buffer has, have the choice of those before.
LARGEST = 1 << 62

#: The collectives that it decides.
COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "broadcast", "reduce")

#: The algorithms with the traffic of its rings and trees; of several the cheapest.
RINGS = ("ring", "bidirectional_ring", "multi_ring", "segmented_ring")
OPENED, TREES = ("pipeline",), ("double_tree",)

#: The collectives with trees that are parallel and aggregate, of one rank on each host.
PAT = ("allgather", "reduce_scatter")


class Caps(NamedTuple):
    """The bandwidth limits of an architecture, with one, two, and more hosts."""

    low_latency: tuple[float, float, float]  #: in all
    ring_128: tuple[float, float, float]  #: per channel
    tree_128: tuple[float, float, float]  #: per channel
    tree: tuple[float, float, float]  #: per channel


CAPS = {
    70: Caps((39.0, 39.0, 20.4), (20.0,) * 3, (20.0,) * 3, (26.5, 18.5, 10.0)),
    80: Caps((87.7, 22.5, 19.0), (20.0,) * 3, (20.0,) * 3, (24.0, 23.6, 17.8)),
    90: Caps((141.0, 45.0, 35.0), (36.7,) * 3, (36.7, 36.7, 29.0), (38.7, 41.4, 36.0)),
    100: Caps(
        (282.0, 90.0, 70.0), (40.0,) * 3, (55.6, 31.67, 20.0), (70.0, 42.8, 24.0)
    ),
}

#: How the bandwidth of the tree is corrected, by powers of two from 64 bytes on.
CORRECTION = tuple(
    tuple(map(float, line.split()))
    for line in (
        "1 1 1 1 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1 1 1 1 1",
        "1 1 1 1 1 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .7 .8 .9 .9 .9 .9 1 1",
        ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9 .9",
    )
)


class World(NamedTuple):
    """The parameters of the model: bandwidths in GB/s."""

    ranks: int
    hosts: int
    bandwidth: float  #: of all rings together, through the narrowest part
    channels: int
    nvlink: bool
    architecture: int  #: as 80 for Ampere

    @property
    def caps(self) -> Caps:
        """The limits of the architecture, or of the one before it."""
        return CAPS[max(a for a in CAPS if a <= max(self.architecture, 70))]

    @property
    def inside(self) -> str:
        """The kind of hop inside a host."""
        return "nvlink" if self.nvlink else "pcie"


def ours(collective: str, shape: str) -> tuple[str, ...]:
    """The algorithms with the traffic of its ring or tree for a collective."""
    if shape == "tree":
        return TREES
    return OPENED if collective in ("broadcast", "reduce") else RINGS


def shapes(collective: str) -> tuple[str, ...]:
    """The shapes that the model compares for a collective."""
    return ("tree", "ring") if collective == "allreduce" else ("ring",)


def choose(
    collective: str, world: World, nbytes: int, among: tuple[str, ...] = ()
) -> tuple[str, str]:
    """The shape, ring or tree unless named, and the protocol that take least.

    Examples
    --------
    >>> world = World(16, 2, 50.0, 12, True, 70)
    >>> choose("allreduce", world, 8), choose("allreduce", world, 1 << 30)
    (('tree', 'LL'), ('ring', 'Simple'))
    """
    tried = among or shapes(collective)
    options = [(shape, protocol) for shape in tried for protocol in range(3)]
    shape, protocol = min(
        options, key=lambda option: _microseconds(collective, world, nbytes, *option)
    )
    return shape, PROTOCOLS[protocol]


def by_size(
    collective: str, world: World, among: tuple[str, ...] = ()
) -> tuple[tuple[int, tuple[str, str]], ...]:
    """The choices of :func:`choose` from least sizes in bytes on, the first from 0."""
    chosen = partial(choose, collective, world, among=among)
    powers = (64 << i for i in range(len(CORRECTION[0])))
    # Where the times are not linear: between these they are, and of straight lines each
    # is the lowest for one range of sizes at most.
    bends = {0, 64 * world.channels * world.ranks, *(n + 1 for n in powers), LARGEST}
    found = [(0, chosen(0))]
    for low, high in pairwise(sorted(bends)):
        for least in (low, *_changes(chosen, low, high - 1)):
            if chosen(least) != found[-1][1]:
                found.append((least, chosen(least)))
    return tuple(found)


def _changes(choice: Callable[[int], object], low: int, high: int) -> Iterator[int]:
    """The sizes in a range from which on another choice holds, in ascending order."""
    if choice(low) == choice(high):
        return
    if high == low + 1:
        yield high
        return
    middle = (low + high) // 2
    yield from _changes(choice, low, middle)
    yield from _changes(choice, middle, high)


def _steps(collective: str, ranks: int) -> int:
    return {"allreduce": 2 * (ranks - 1), "broadcast": ranks, "reduce": ranks}.get(
        collective, ranks - 1
    )


def _microseconds(
    collective: str, world: World, nbytes: int, shape: str, protocol: int
) -> float:
    """The time that the model predicts."""
    latency = _latency(collective, world, shape, protocol)
    bandwidth = _bandwidth(world, shape, protocol)
    if shape == "ring":
        bandwidth *= world.ranks / _steps(collective, world.ranks)
        if protocol == 2 and world.hosts > 1:
            share = nbytes / (world.channels * world.ranks)
            latency *= 1.4 if share >= 64 else 1.0
    else:
        bandwidth *= 0.5
        power = min(max(ceil(log2(max(nbytes, 1) / 64)), 0), 23)
        bandwidth *= CORRECTION[protocol][power]
    return latency + nbytes / (1000 * bandwidth)


def _bandwidth(world: World, shape: str, protocol: int) -> float:
    """GB/s on the bus."""
    caps, scale = world.caps, min(world.hosts, 3) - 1
    whole, channels = world.bandwidth, world.channels
    if shape == "ring":
        return (
            min(caps.low_latency[scale], 0.5 * whole),
            min(0.92 * whole, channels * caps.ring_128[scale]),
            whole,
        )[protocol]
    tree = min(0.92 * whole, channels * caps.tree[scale])
    of_128 = 7 / 9 if world.hosts == 1 else 120 / 128
    return (
        tree / 3.8,
        min(tree * of_128, channels * caps.tree_128[scale]),
        tree,
    )[protocol]


def _latency(collective: str, world: World, shape: str, protocol: int) -> float:
    """Microseconds without any bytes."""
    inside = HOPS[world.inside][shape][protocol]
    network = HOPS["network"][shape][protocol]
    base = BASE[shape][protocol]
    if shape == "tree":
        each = world.ranks / world.hosts
        return base + 2 * ((each - 1) * inside + log2(world.hosts) * network)
    steps = _steps(collective, world.ranks)
    rounds = 2 if collective == "allreduce" else 1
    between = rounds * (world.hosts - 1) if world.hosts > 1 else 0
    overhead = NET_OVERHEAD * (3 if protocol == 2 else 1) if world.hosts > 1 else 0.0
    return base + (steps - between) * max(inside, overhead) + between * network
