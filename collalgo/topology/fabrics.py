"""Builders of networks of hosts or of other devices.

Bandwidths are in GB/s in each direction, latencies in seconds.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.model import LARGEST, Kind, LinkKind, Topology
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
        raise TopologyError(f"{topology.name}: {len(nodes)} nodes are no {shape} grid")
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
        raise TopologyError(f"a hypercube of {dimensions} dimensions must have 0 to 16")
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


def fat_tree(k: int, cable: Cable, oversubscription: float = 1.0) -> Topology:
    """The three-level fat tree of switches with k ports, for k**3 / 4 hosts.

    The uplinks of each edge switch have less bandwidth than its hosts, by the factor
    ``oversubscription``: there are fewer of them and, for the rest, they are narrower.
    """
    check_oversubscription(oversubscription, "fat_tree", least=1.0)
    if k < 2 or k % 2 or k > 64:
        raise TopologyError(
            f"a fat tree of switches with {k} ports; k must be even, from 2 to 64"
        )
    half = k // 2
    up, share = uplinks_of(half, oversubscription)
    uplink = cable.narrowed(share)
    topology = Topology(f"fat tree of {k}-port switches", "built")
    hosts = iter(nodes_of(topology, k * half * half))
    cores = [topology.add(f"core{i}", Kind.SWITCH, level=3) for i in range(half * up)]
    for pod in range(k):
        names = [f"pod{pod}/spine{i}" for i in range(up)]
        spines = [topology.add(name, Kind.SWITCH, level=2) for name in names]
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


def dragonfly(groups: int, routers: int, hosts: int, cable: Cable) -> Topology:
    """A dragonfly: fully connected groups of routers, with hosts at every router.

    Each pair of groups has one cable, at routers in round-robin order.
    """
    if min(groups, routers, hosts) < 1:
        raise TopologyError(
            f"a dragonfly of {groups} x {routers} x {hosts}; each must be at least 1"
        )
    if groups * routers * hosts > LARGEST or routers > 1024 or groups > 2048:
        raise TopologyError(
            f"a dragonfly of {groups} x {routers} x {hosts} is too large"
        )
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


def leaf_spine(
    topology: Topology,
    ports: Sequence[Sequence[str]],
    *,
    rail: bool = False,
    hosts_per_leaf: int = 8,
    oversubscription: float = 1.0,
) -> None:
    """Join hosts by a two-level CLOS.

    Parameters
    ----------
    topology
        The topology of the ports.
    ports
        For each host the ids of its NICs, each of which has a cable of its speed.
    rail
        Whether each NIC of a host has another leaf (rail-optimised); else all NICs of
        a host have the same leaf.
    hosts_per_leaf
        The number of hosts of a leaf, or of a group of leaves with rails.
    oversubscription
        The bandwidth from the hosts of a leaf divided by that to the spines.

    The cables between switches have the mean speed of the NICs of the leaf.
    """
    check_oversubscription(oversubscription, topology.name)
    if hosts_per_leaf < 1:
        raise TopologyError(
            f"{topology.name}: hosts_per_leaf={hosts_per_leaf} must be at least 1"
        )
    groups = list(_by_leaf(ports, rail, hosts_per_leaf))
    leaves = [topology.add(f"leaf{i}", Kind.SWITCH) for i in range(len(groups))]
    for leaf, nics in zip(leaves, groups, strict=True):
        for nic in nics:
            speed = topology.device(nic).attributes.get("speed")
            wire(topology, nic, leaf, Cable(speed))
    if len(leaves) > 1:
        _spines(topology, leaves, groups, oversubscription)


def _spines(
    topology: Topology,
    leaves: Sequence[str],
    groups: Sequence[Sequence[str]],
    oversubscription: float,
) -> None:
    """Join leaves, each with its NICs, by spines."""
    uplinks, share = uplinks_of(max(map(len, groups)), oversubscription)
    spines = [topology.add(f"spine{i}", Kind.SWITCH) for i in range(min(uplinks, 8))]
    for leaf, nics in zip(leaves, groups, strict=True):
        cable = _mean_cable(topology, nics).narrowed(share)
        for i, spine in enumerate(spines):
            count = uplinks // len(spines) + (i < uplinks % len(spines))
            wire(topology, leaf, spine, cable, count)


def _mean_cable(topology: Topology, nics: Sequence[str]) -> Cable:
    """A cable of the mean speed of some NICs; of unknown speed if that of one is."""
    speeds = [topology.device(nic).attributes.get("speed") for nic in nics]
    known = [float(speed) for speed in speeds if speed is not None]
    return Cable(fmean(known) if len(known) == len(speeds) else None)


def _by_leaf(
    ports: Sequence[Sequence[str]], rail: bool, hosts_per_leaf: int
) -> Iterator[list[str]]:
    for start in range(0, len(ports), hosts_per_leaf):
        group = ports[start : start + hosts_per_leaf]
        if rail:
            for k in range(max(len(nics) for nics in group)):
                yield [nics[k] for nics in group if k < len(nics)]
        else:
            yield [nic for nics in group for nic in nics]
