"""Networks to build: what joins hosts, or points that stand for whatever they are.

Bandwidths are in GB/s in each direction, latencies in seconds.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.model import LARGEST, Kind, LinkKind, Topology


class Cable(NamedTuple):
    """What one cable of a fabric carries: GB/s in each direction, and seconds."""

    bandwidth: float | None = 12.5
    latency: float | None = None


def points(topology: Topology, count: int, kind: Kind = Kind.HOST) -> list[str]:
    """That many devices of a kind, numbered."""
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
    """Join two devices by some cables, of a network unless another kind is given."""
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
    """Wire nodes, the first dimension fastest, as a mesh or with wraps as a torus."""
    if math.prod(dims) != len(nodes) or min(dims, default=0) < 1:
        shape = " x ".join(map(str, dims))
        raise TopologyError(f"{topology.name}: {len(nodes)} nodes are no {shape} grid")
    for axis, length in enumerate(dims):
        stride = math.prod(dims[:axis])
        for i, node in enumerate(nodes):
            place = i // stride % length
            if place + 1 < length:
                wire(topology, node, nodes[i + stride], cable, kind=kind)
            elif wraps and length > 2:
                wire(topology, node, nodes[i - place * stride], cable, kind=kind)


def torus(dims: Sequence[int], cable: Cable) -> Topology:
    """A torus of hosts, the first dimension fastest."""
    topology = Topology(f"torus {'x'.join(map(str, dims))}", "built")
    grid(topology, points(topology, math.prod(dims)), dims, cable)
    return topology


def mesh(dims: Sequence[int], cable: Cable) -> Topology:
    """A mesh of hosts, the first dimension fastest."""
    topology = Topology(f"mesh {'x'.join(map(str, dims))}", "built")
    grid(topology, points(topology, math.prod(dims)), dims, cable, wraps=False)
    return topology


def tpu(dims: Sequence[int], cable: Cable) -> Topology:
    """A slice of a TPU: a torus of chips, of which each host has 2 x 2 (x 1)."""
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
        raise TopologyError(f"a hypercube of {dimensions} dimensions; 0 to 16 will do")
    topology = torus([2] * dimensions or [1], cable)
    topology.name = f"hypercube {dimensions}"
    return topology


def fully_connected(hosts: int, cable: Cable) -> Topology:
    """Hosts with a cable from each to each."""
    if hosts > 2048:
        raise TopologyError(f"{hosts} hosts cannot be wired each to each; 2048 can")
    topology = Topology(f"fully connected {hosts}", "built")
    for a, b in combinations(points(topology, hosts), 2):
        wire(topology, a, b, cable)
    return topology


def star(topology: Topology, nodes: Sequence[str], name: str, cable: Cable) -> str:
    """Join nodes by one switch, and give its id."""
    switch = topology.add(name, Kind.SWITCH)
    for node in nodes:
        wire(topology, node, switch, cable)
    return switch


def fat_tree(k: int, cable: Cable, oversubscription: float = 1.0) -> Topology:
    """The three-level fat tree of switches with k ports, for k**3 / 4 hosts.

    With oversubscription each edge switch has so many fewer cables upwards.
    """
    if k < 2 or k % 2 or k > 64:
        raise TopologyError(f"a fat tree of switches with {k} ports; even, 2 to 64")
    half = k // 2
    up = max(1, round(half / oversubscription))
    topology = Topology(f"fat tree of {k}-port switches", "built")
    hosts = iter(points(topology, k * half * half))
    cores = [topology.add(f"core{i}", Kind.SWITCH, level=3) for i in range(half * up)]
    for pod in range(k):
        names = [f"pod{pod}/spine{i}" for i in range(up)]
        spines = [topology.add(name, Kind.SWITCH, level=2) for name in names]
        for i, spine in enumerate(spines):
            for core in cores[i * half : (i + 1) * half]:
                wire(topology, spine, core, cable)
        for e in range(half):
            nodes = [next(hosts) for _ in range(half)]
            edge = star(topology, nodes, f"pod{pod}/leaf{e}", cable)
            for spine in spines:
                wire(topology, edge, spine, cable)
    return topology


def dragonfly(groups: int, routers: int, hosts: int, cable: Cable) -> Topology:
    """Groups of routers, each joined to each inside a group; hosts at every router.

    Each pair of groups has one cable, at routers that take turns.
    """
    if groups * routers * hosts > LARGEST or routers > 1024 or groups > 2048:
        raise TopologyError(
            f"a dragonfly of {groups} x {routers} x {hosts} is too large"
        )
    topology = Topology(f"dragonfly {groups} x {routers} x {hosts}", "built")
    nodes = iter(points(topology, groups * routers * hosts))
    all_routers = []
    for g in range(groups):
        mine = [
            star(
                topology,
                [next(nodes) for _ in range(hosts)],
                f"group{g}/router{r}",
                cable,
            )
            for r in range(routers)
        ]
        for a, b in combinations(mine, 2):
            wire(topology, a, b, cable)
        all_routers.append(mine)
    turns = [0] * groups
    for one, other in combinations(range(groups), 2):
        wire(
            topology,
            all_routers[one][turns[one] % routers],
            all_routers[other][turns[other] % routers],
            cable,
        )
        turns[one] += 1
        turns[other] += 1
    return topology


def leaf_spine(
    topology: Topology,
    ports: Sequence[Sequence[str]],
    cable: Cable,
    *,
    rail: bool = False,
    hosts_per_leaf: int = 8,
    oversubscription: float = 1.0,
) -> None:
    """Join hosts by a CLOS of two levels.

    Parameters
    ----------
    topology
        Where the ports are.
    ports
        For each host the ids of what goes on the network: its NICs, or itself.
    cable
        Of all links.
    rail
        Whether NIC k of the hosts of a leaf shares a leaf of its own (rail-optimised);
        else all NICs of a host go to one leaf.
    hosts_per_leaf
        How many hosts share a leaf, or a group of leaves.
    oversubscription
        The bandwidth from the hosts of a leaf over that to the spines.
    """
    if hosts_per_leaf < 1 or oversubscription <= 0:
        raise TopologyError(
            f"{topology.name}: hosts_per_leaf of {hosts_per_leaf} and oversubscription "
            f"of {oversubscription} must be positive"
        )
    leaves = [
        (star(topology, ends, f"leaf{i}", cable), len(ends))
        for i, ends in enumerate(_by_leaf(ports, rail, hosts_per_leaf))
    ]
    if len(leaves) < 2:
        return
    most = max(size for _, size in leaves)
    uplinks = max(1, math.ceil(most / oversubscription))
    spines = [topology.add(f"spine{i}", Kind.SWITCH) for i in range(min(uplinks, 8))]
    for leaf, _ in leaves:
        for i, spine in enumerate(spines):
            count = uplinks // len(spines) + (i < uplinks % len(spines))
            wire(topology, leaf, spine, cable, count)


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
