"""How two devices reach each other: the kind of the path, and its bottleneck.

The kinds and their order are those of ``nvidia-smi topo -m`` and of NCCL: a better kind
beats more bandwidth, more bandwidth beats fewer links.
"""

import math
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.model import FAST, Kind, Link, LinkKind, Topology


class PathType(IntEnum):
    """What a path passes, from the best to the worst."""

    LOC = 0  #: nothing: the same device
    NVL = 1  #: NVLink or xGMI, directly or through NVSwitches
    NVB = 2  #: two such links, through another GPU
    C2C = 3  #: the link of a GPU to its own CPU
    PIX = 4  #: one PCIe switch at most
    PXB = 5  #: several PCIe switches, no CPU
    PHB = 6  #: the host bridge of a CPU
    NODE = 7  #: several host bridges of one NUMA node
    SYS = 8  #: several NUMA nodes
    NET = 9  #: the network
    DIS = 10  #: there is no path


class Path(NamedTuple):
    """A path between two devices.

    ``bandwidth`` is that of the narrowest link in GB/s in each direction, None where a
    link is not known; ``devices`` are the ids on the way, both ends included.
    """

    type: PathType
    bandwidth: float | None
    devices: tuple[str, ...]
    links: tuple[Link, ...]


def best_path(topology: Topology, a: str, b: str) -> Path:
    """The best path from one device to another; of type ``DIS`` if there is none.

    Parameters
    ----------
    topology
        The machine.
    a, b
        Ids of devices.

    Raises
    ------
    TopologyError
        If there is no such device.
    """
    topology.device(b)
    return paths_from(topology, a).get(b, Path(PathType.DIS, 0.0, (), ()))


def paths_from(
    topology: Topology, source: str, worst: PathType = PathType.NET
) -> dict[str, Path]:
    """The best path to every device, if it is none worse than ``worst``."""
    return Net(topology).paths_from(source, worst)


def link_type(topology: Topology, link: Link) -> PathType:
    """The best type that a path over a link can have."""
    if link.kind in FAST:
        return PathType.NVL
    if link.kind is LinkKind.PCIE:
        return _pcie_type({topology.device(end).kind for end in link.ends})
    return {
        LinkKind.C2C: PathType.C2C,
        LinkKind.SMP: PathType.SYS,
        LinkKind.NETWORK: PathType.NET,
    }[link.kind]


def _pcie_type(kinds: set[Kind]) -> PathType:
    if kinds == {Kind.ROOT, Kind.CPU}:
        return PathType.NODE
    if kinds & {Kind.ROOT, Kind.CPU}:
        return PathType.PHB
    return PathType.PXB if kinds == {Kind.PCI} else PathType.PIX


def width_of(link: Link) -> float:
    """GB/s of a link, any where that is not known."""
    return math.inf if link.bandwidth is None else link.bandwidth


class Hop(NamedTuple):
    """A link as it is seen from one of its ends."""

    other: str
    link: Link
    type: PathType
    width: float


class Net:
    """The links of each device of a topology, with what paths ask of them."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.kinds = {device.id: device.kind for device in topology.devices()}
        self.hops: dict[str, list[Hop]] = {id: [] for id in self.kinds}
        for link in topology.links:
            a, b = link.ends
            hop = Hop(b, link, link_type(topology, link), width_of(link))
            self.hops[a].append(hop)
            self.hops[b].append(hop._replace(other=a))
        types = {hop.type for hops in self.hops.values() for hop in hops}
        #: The types of paths that there may be more of than of those before: by links
        #: of that type, by going on from a CPU, or from a NIC.
        self.telling = types | {PathType.PHB, PathType.NET}
        self._onward: dict[tuple[PathType, bool], dict[str, list[Hop]]] = {}

    def onward(self, limit: PathType, through_hosts: bool) -> dict[str, list[Hop]]:
        """The links by which paths of a type at most can go on from each device."""
        key = limit, through_hosts
        if key not in self._onward:
            self._onward[key] = {
                id: [
                    hop
                    for hop in hops
                    if hop.type <= limit
                    and _relays(self.kinds[id], hop.link, limit, through_hosts)
                ]
                for id, hops in self.hops.items()
            }
        return self._onward[key]

    def paths_from(
        self, source: str, worst: PathType = PathType.NET
    ) -> dict[str, Path]:
        """The best path to every device, if it is none worse than ``worst``."""
        self.topology.device(source)
        found = {source: Path(PathType.LOC, math.inf, (source,), ())}
        for limit in PathType:
            if limit > worst or len(found) == len(self.kinds):
                break
            if limit is PathType.NVB:
                found.update(_through_a_gpu(self.topology, source, found))
            if limit in self.telling:
                self._extend(source, limit, found)
        if worst >= PathType.NET and len(found) < len(self.kinds):
            # As in a torus, where hosts are routers too.
            self._extend(source, PathType.NET, found, through_hosts=True)
        return found

    def _extend(
        self,
        source: str,
        limit: PathType,
        found: dict[str, Path],
        through_hosts: bool = False,
    ) -> None:
        """Add the paths of a type to what has none yet."""
        search = Search(self, source, limit, through_hosts)
        new = {id: width for id, width in search.widest().items() if id not in found}
        for width in set(new.values()):
            before = search.fewest_links(width)
            for id in (id for id in new if new[id] == width):
                found[id] = _path(limit, *_route(before, source, id))


def _relays(kind: Kind, link: Link, limit: PathType, through_hosts: bool) -> bool:
    """Whether paths of a type may go on from a device of a kind by a link."""
    if kind is Kind.GPU:
        return link.kind is LinkKind.ICI  # the chips of a TPU are routers
    if kind is Kind.CORE:
        return False
    if kind is Kind.HOST:
        return through_hosts and link.kind is LinkKind.NETWORK
    if kind is Kind.NIC:
        return limit is PathType.NET
    if kind in (Kind.CPU, Kind.ROOT):
        return limit >= PathType.PHB
    return True


class Search:
    """Paths from a device that are of no worse type than a limit.

    Attributes
    ----------
    source : str
        The device.
    onward : dict
        The links by which a path can go on from each device.
    """

    def __init__(self, net: Net, source: str, limit: PathType, through_hosts: bool):
        self.source = source
        first = [hop for hop in net.hops[source] if hop.type <= limit]
        self.onward = {**net.onward(limit, through_hosts), source: first}

    def widest(self) -> dict[str, float]:
        """The bottleneck of the widest path to each device, the widest first."""
        best: dict[str, float] = {}
        queue = [(-math.inf, self.source)]
        while queue:
            width, id = heappop(queue)
            if id in best:
                continue
            best[id] = -width
            for hop in self.onward[id]:
                if hop.other not in best:
                    heappush(queue, (max(width, -hop.width), hop.other))
        return best

    def fewest_links(self, width: float) -> dict[str, tuple[str, Link]]:
        """Where a shortest path of at least some width comes from, for each device.

        That is the device before it and the link between them. Of paths that are
        equally short, one whose bandwidth is known comes first.
        """
        before: dict[str, tuple[str, Link]] = {}
        unknown: set[str] = set()
        level = [self.source]
        while level:
            steps = [
                (id in unknown or hop.link.bandwidth is None, -hop.width, id, hop)
                for id in level
                for hop in self.onward[id]
                if hop.width >= width
            ]
            level = []
            for vague, _, id, hop in sorted(steps, key=lambda step: step[:2]):
                if hop.other in before or hop.other == self.source:
                    continue
                before[hop.other] = id, hop.link
                level.append(hop.other)
                if vague:
                    unknown.add(hop.other)
        return before


def _route(
    before: dict[str, tuple[str, Link]], source: str, id: str
) -> tuple[tuple[str, ...], tuple[Link, ...]]:
    devices, links = [id], []
    while devices[-1] != source:
        previous, link = before[devices[-1]]
        devices.append(previous)
        links.append(link)
    return tuple(reversed(devices)), tuple(reversed(links))


def _path(type: PathType, devices: tuple[str, ...], links: tuple[Link, ...]) -> Path:
    widths = [link.bandwidth for link in links]
    narrowest = None if None in widths else min(w for w in widths if w is not None)
    return Path(type, narrowest, devices, links)


def _through_a_gpu(
    topology: Topology, source: str, found: dict[str, Path]
) -> dict[str, Path]:
    """Paths of two NVLinks or xGMI links through another GPU, which lends them."""
    if topology.device(source).kind is not Kind.GPU:
        return {}
    best: dict[str, Path] = {}
    for first in _fast_to_gpus(topology, source):
        middle = first.other(source)
        for second in _fast_to_gpus(topology, middle):
            path = _joined(source, first, second)
            id = path.devices[-1]
            if id not in found and (
                id not in best or (path.bandwidth or 0) > (best[id].bandwidth or 0)
            ):
                best[id] = path
    return best


def _fast_to_gpus(topology: Topology, id: str) -> list[Link]:
    return [
        link
        for link in topology.links_of(id)
        if link.kind in FAST and topology.device(link.other(id)).kind is Kind.GPU
    ]


def _joined(source: str, first: Link, second: Link) -> Path:
    middle = first.other(source)
    route = (source, middle, second.other(middle))
    return _path(PathType.NVB, route, (first, second))


def matrix(topology: Topology, ids: list[str]) -> list[list[Path]]:
    """The best paths between all pairs of some devices."""
    rows = []
    net = Net(topology)
    for a in ids:
        paths = net.paths_from(a)
        missing = [b for b in ids if b not in topology.graph]
        if missing:
            raise TopologyError(f"{topology.name}: there is no device {missing[0]!r}")
        nowhere = Path(PathType.DIS, 0.0, (), ())
        rows.append([paths.get(b, nowhere) for b in ids])
    return rows
