"""Builders of networks of hosts or of other devices.

Bandwidths are in GB/s in each direction, latencies in seconds.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.graph import LARGEST
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.values import number

#: The most dimensions of a grid.
MOST_AXES = 16

#: The highest oversubscription.
MOST_OVERSUBSCRIPTION = 1000.0


class Cable(NamedTuple):
    """A cable of a fabric: its GB/s in each direction, and its latency in seconds."""

    bandwidth: float | None = 12.5
    latency: float | None = None

    def narrowed(self, share: float) -> "Cable":
        """A cable with a share of the bandwidth, if that is known."""
        if self.bandwidth is None:
            return self
        return self._replace(bandwidth=self.bandwidth * share)


def uplinks_of(ports: int, oversubscription: float) -> tuple[int, float]:
    """The number of uplinks for some ports of a switch, and the share of each.

    Together they have the bandwidth of the ports divided by ``oversubscription``.
    """
    wanted = ports / oversubscription
    count = max(1, math.ceil(wanted))
    return count, wanted / count


def nodes_of(topology: Topology, count: int, kind: Kind = Kind.HOST) -> list[str]:
    """Add a number of devices of a kind, and return their ids."""
    if not 1 <= count <= LARGEST:
        raise TopologyError(f"{topology.name}: {count} {kind.value}s cannot be built")
    return [topology.add(f"{kind.value}{i}", kind) for i in range(count)]


def wire(
    topology: Topology,
    a: str,
    b: str,
    cable: Cable,
    count: int = 1,
    kind: LinkKind = LinkKind.NETWORK,
) -> None:
    """Link two devices by a number of cables, by default of a network."""
    total = None if cable.bandwidth is None else cable.bandwidth * count
    topology.link(a, b, kind, total, count=count, latency=cable.latency)


def grid(
    topology: Topology,
    nodes: Sequence[str],
    dims: Sequence[int],
    cable: Cable,
    wraps: bool = True,
    kind: LinkKind = LinkKind.NETWORK,
) -> None:
    """Wire nodes as a torus, or without wraps as a mesh; first dimension fastest."""
    if len(dims) > MOST_AXES:
        raise TopologyError(f"a grid of {len(dims)} dimensions; at most {MOST_AXES}")
    if math.prod(dims) != len(nodes) or min(dims, default=0) < 1:
        shape = " x ".join(map(str, dims))
        raise TopologyError(
            f"{topology.name}: {len(nodes)} nodes do not form a grid of {shape}"
        )
    for axis, length in enumerate(dims):
        stride = math.prod(dims[:axis])
        for i, node in enumerate(nodes):
            position = i // stride % length
            if position + 1 < length:
                wire(topology, node, nodes[i + stride], cable, kind=kind)
            elif wraps and length > 2:
                wire(topology, node, nodes[i - position * stride], cable, kind=kind)


def torus(dims: Sequence[int], cable: Cable) -> Topology:
    """A torus of hosts, the first dimension fastest."""
    topology = Topology(f"torus {'x'.join(map(str, dims))}", "built")
    grid(topology, nodes_of(topology, math.prod(dims)), dims, cable)
    return topology


def mesh(dims: Sequence[int], cable: Cable) -> Topology:
    """A mesh of hosts, the first dimension fastest."""
    topology = Topology(f"mesh {'x'.join(map(str, dims))}", "built")
    grid(topology, nodes_of(topology, math.prod(dims)), dims, cable, wraps=False)
    return topology


def tpu(dims: Sequence[int], cable: Cable) -> Topology:
    """A TPU slice: a torus of chips, with 2 x 2 (x 1) chips per host."""
    topology = Topology(f"tpu {'x'.join(map(str, dims))}", "built")
    if len(dims) not in (2, 3) or any(n % 2 for n in dims[:2]) or min(dims) < 1:
        raise TopologyError(
            f"tpu: dims {tuple(dims)} must be two or three, the first two even"
        )
    chips = []
    for i in range(min(math.prod(dims), LARGEST)):
        x, y, rest = i % dims[0], i // dims[0] % dims[1], i // (dims[0] * dims[1])
        host = x // 2 + dims[0] // 2 * (y // 2 + dims[1] // 2 * rest)
        name = f"host{host}/gpu{x % 2 + 2 * (y % 2)}"
        chips.append(topology.add(name, Kind.GPU, host=f"host{host}", at=[x, y, rest]))
    grid(topology, chips, dims, cable, kind=LinkKind.ICI)
    return topology


def hypercube(dimensions: int, cable: Cable) -> Topology:
    """A hypercube of hosts."""
    if not 0 <= dimensions <= 16:
        raise TopologyError(f"a hypercube has 0 to 16 dimensions, not {dimensions}")
    topology = torus([2] * dimensions or [1], cable)
    topology.name = f"hypercube {dimensions}"
    return topology


def fully_connected(hosts: int, cable: Cable) -> Topology:
    """Hosts with a cable between each pair."""
    if hosts > 2048:
        raise TopologyError(
            f"{hosts} hosts are too many to be fully connected; at most 2048 are"
        )
    topology = Topology(f"fully connected {hosts}", "built")
    for a, b in combinations(nodes_of(topology, hosts), 2):
        wire(topology, a, b, cable)
    return topology


def star(topology: Topology, nodes: Sequence[str], name: str, cable: Cable) -> str:
    """Join nodes by a switch, and return its id."""
    switch = topology.add(name, Kind.SWITCH)
    for node in nodes:
        wire(topology, node, switch, cable)
    return switch


def _check_fat_tree(k: int, oversubscription: float) -> None:
    check_oversubscription(oversubscription, "fat_tree", least=1.0)
    if k < 2 or k % 2 or k > 64:
        raise TopologyError(
            f"a fat tree of switches with {k} ports; k must be even, from 2 to 64"
        )


def _spines_of_pod(topology: Topology, pod: int, count: int) -> list[str]:
    names = [f"pod{pod}/spine{i}" for i in range(count)]
    return [topology.add(name, Kind.SWITCH, level=2) for name in names]


def fat_tree(k: int, cable: Cable, oversubscription: float = 1.0) -> Topology:
    """The three-level fat tree of switches with k ports, for k**3 / 4 hosts.

    The uplinks of each edge switch have less bandwidth than its hosts, by the factor
    ``oversubscription``: there are fewer of them and, for the rest, they are narrower.
    """
    _check_fat_tree(k, oversubscription)
    half = k // 2
    up, share = uplinks_of(half, oversubscription)
    uplink = cable.narrowed(share)
    topology = Topology(f"fat tree of {k}-port switches", "built")
    hosts = iter(nodes_of(topology, k * half * half))
    cores = [topology.add(f"core{i}", Kind.SWITCH, level=3) for i in range(half * up)]
    for pod in range(k):
        spines = _spines_of_pod(topology, pod, up)
        for i, spine in enumerate(spines):
            _wire_all(topology, spine, cores[i * half : (i + 1) * half], uplink)
        for e in range(half):
            nodes = [next(hosts) for _ in range(half)]
            edge = star(topology, nodes, f"pod{pod}/leaf{e}", cable)
            _wire_all(topology, edge, spines, uplink)
    return topology


def check_oversubscription(given: float, who: str, least: float = 0.1) -> None:
    """Refuse an oversubscription that no network has."""
    number(given, f"{who}: oversubscription", least, MOST_OVERSUBSCRIPTION)


def _wire_all(topology: Topology, a: str, others: Sequence[str], cable: Cable) -> None:
    for other in others:
        wire(topology, a, other, cable)


def _check_dragonfly(groups: int, routers: int, hosts: int) -> None:
    shape = f"a dragonfly of {groups} x {routers} x {hosts}"
    if min(groups, routers, hosts) < 1:
        raise TopologyError(f"{shape}; each must be at least 1")
    if groups * routers * hosts > LARGEST or routers > 1024 or groups > 2048:
        raise TopologyError(f"{shape} is too large")


def dragonfly(groups: int, routers: int, hosts: int, cable: Cable) -> Topology:
    """A dragonfly: fully connected groups of routers, with hosts at every router.

    Each pair of groups has one cable, at routers in round-robin order.
    """
    _check_dragonfly(groups, routers, hosts)
    topology = Topology(f"dragonfly {groups} x {routers} x {hosts}", "built")
    nodes = iter(nodes_of(topology, groups * routers * hosts))
    all_routers = []
    for g in range(groups):
        mine = []
        for r in range(routers):
            ends = [next(nodes) for _ in range(hosts)]
            mine.append(star(topology, ends, f"group{g}/router{r}", cable))
        for a, b in combinations(mine, 2):
            wire(topology, a, b, cable)
        all_routers.append(mine)
    _wire_groups(topology, all_routers, cable)
    return topology


def _wire_groups(
    topology: Topology, groups: Sequence[Sequence[str]], cable: Cable
) -> None:
    """Wire each pair of groups at the next router of each."""
    turns = [0] * len(groups)
    for pair in combinations(range(len(groups)), 2):
        a, b = (groups[g][turns[g] % len(groups[g])] for g in pair)
        wire(topology, a, b, cable)
        for g in pair:
            turns[g] += 1
