"""The roads that messages take between the devices of ranks, and what they share.

A message takes the best path; where several are as good, as through two NICs of one
PCIe switch or the spines of a CLOS, an equal part of it takes each.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from collalgo._kernels.cost.loads import legs_of
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.errors import TopologyError
from collalgo.schedule.transfers import Ints, Reals
from collalgo.topology.model import Kind, Link, LinkKind, Topology
from collalgo.topology.net import Net, Search
from collalgo.topology.path_types import PathType, width_of
from collalgo.topology.paths import Path, paths_in

#: A direction of a link: from its first end to its second, or back.
Way = tuple[Link, bool]


def ranks_of(topology: Topology) -> list[str]:
    """The devices that are ranks: the GPUs, else the cores, else the hosts."""
    for kind in (Kind.GPU, Kind.CORE):
        if found := [device.id for device in topology.devices(kind)]:
            return found
    return topology.hosts


class Legs(NamedTuple):
    """The ways that messages take: of which message, which way, which part of it."""

    message: Ints
    way: Ints
    part: Reals


class Map(Protocol):
    """What the models of prices ask of roads; ways are numbered."""

    speed: Reals  #: bytes per second of each way
    figures: LinkModel  #: what else messages cost

    def trips(self, source: Ints, target: Ints) -> tuple[Reals, Legs]:
        """Seconds of the first byte of messages between ranks, and their ways."""

    def place(self, ranks: Ints) -> Ints:
        """Who counts as the same rank."""

    def name(self, way: int) -> Way:
        """The link and the direction of a way."""

    def in_network(self, ways: Ints) -> Reals:
        """1 for each way that is one of a network, 0 for the others."""


class Route(NamedTuple):
    """How messages go from a device to another: the parts on each way."""

    ways: tuple[int, ...]
    parts: tuple[float, ...]
    latency: float


def in_network(link: Link) -> bool:
    """Whether a link is one between hosts and switches."""
    return link.kind is LinkKind.NETWORK


class Routes:
    """The roads between the devices of ranks, one rank on each.

    Parameters
    ----------
    topology
        The machine.
    places
        The device of each rank.
    figures
        What messages cost.
    """

    def __init__(
        self, topology: Topology, places: Sequence[str], figures: LinkModel = DEFAULTS
    ):
        self.topology = topology
        self.places = places
        self.figures = figures
        self._links = topology.links
        self._number = {id(link): i for i, link in enumerate(self._links)}
        self.speed = np.repeat([*map(figures.bytes_per_second, self._links)], 2)
        self._in_network = np.array([*map(in_network, self._links)], float)
        self._net = Net(topology)
        self._targets = frozenset(places)
        self._paths: dict[str, dict[str, Path]] = {}
        self._sheaves: dict[tuple[object, ...], ShortestPaths] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    def reordered(self, places: Sequence[str]) -> "Routes":
        """The same roads for ranks in other places."""
        other = object.__new__(Routes)
        other.__dict__.update(self.__dict__, places=places)
        return other

    def place(self, ranks: Ints) -> Ints:
        """Who counts as the same rank: nobody but itself."""
        return ranks

    def name(self, way: int) -> Way:
        """The link and the direction of a way."""
        return self._links[way // 2], way % 2 == 0

    def in_network(self, ways: Ints) -> Reals:
        """1 for each way that is one of a network, 0 for the others."""
        return self._in_network[ways // 2]

    def trips(self, source: Ints, target: Ints) -> tuple[Reals, Legs]:
        """Seconds of the first byte of messages between ranks, and their ways."""
        count = len(self.places)
        pairs, which = np.unique(source * count + target, return_inverse=True)
        names = [(self.places[p // count], self.places[p % count]) for p in pairs]
        routes = [self.route(*name) for name in names]
        lengths = np.array([len(route.ways) for route in routes], np.int64)
        first = np.cumsum(lengths) - lengths
        ways = np.array([w for route in routes for w in route.ways], np.int64)
        parts = np.array([p for route in routes for p in route.parts])
        latency = np.array([route.latency for route in routes])[which]
        return latency, Legs(*legs_of(which, lengths, first, ways, parts))

    def route(self, a: str, b: str) -> Route:
        """How messages go from a device to another."""
        if (a, b) not in self._routes:
            self._routes[a, b] = self._find(a, b)
        return self._routes[a, b]

    def _find(self, a: str, b: str) -> Route:
        path = self._path(a, b)
        told = [link.latency for link in path.links if link.latency is not None]
        latency = sum(told) if told else self.figures.latency[path.type]
        if path.type is PathType.NVB:
            ends = zip(path.devices, path.links, strict=False)
            ways = tuple(self._way(link, device) for device, link in ends)
            return Route(ways, (1.0,) * len(ways), latency)
        legs = self._sheaf(path).parts(b)
        ways = tuple([self._way(link, device) for device, link, _ in legs])
        return Route(ways, tuple([part for _, _, part in legs]), latency)

    def _way(self, link: Link, start: str) -> int:
        return 2 * self._number[id(link)] + (link.ends[0] != start)

    def _path(self, a: str, b: str) -> Path:
        if a not in self._paths:
            self._paths[a] = paths_in(self._net, a, self._targets)
        if b not in self._paths[a]:
            raise TopologyError(f"{self.topology.name}: {a} cannot reach {b}")
        return self._paths[a][b]

    def _sheaf(self, path: Path) -> "ShortestPaths":
        """All paths as good as one, to all devices."""
        inner = path.devices[1:-1]
        hosts = any(self.topology.device(one).kind is Kind.HOST for one in inner)
        width = min(map(width_of, path.links), default=inf)
        key = (path.devices[0], path.type, hosts, width)
        if key not in self._sheaves:
            search = Search(self._net, path.devices[0], path.type, hosts)
            self._sheaves[key] = ShortestPaths(search, width)
        return self._sheaves[key]


class ShortestPaths:
    """All paths of some width with the fewest links from a device."""

    def __init__(self, search: Search, width: float):
        before: dict[str, dict[str, Link]] = {search.source: {}}
        ring = [search.source]
        while ring:
            reached: dict[str, dict[str, Link]] = defaultdict(dict)
            for here in ring:
                for other, link, _, wide in search.onward[here]:
                    if other not in before and wide >= width:
                        known = reached[other].get(here)
                        if known is None or width_of(known) < wide:
                            reached[other][here] = link
            before.update(reached)
            ring = list(reached)
        self.before = before

    def parts(self, target: str) -> list[tuple[str, Link, float]]:
        """The links on the way, where each starts, and the part of a message on it."""
        parts = []
        ring = {target: 1.0}
        while ring:
            nearer: dict[str, float] = defaultdict(float)
            for here, part in ring.items():
                share = part / max(len(self.before[here]), 1)
                for previous, link in self.before[here].items():
                    parts.append((previous, link, share))
                    nearer[previous] += share
            ring = nearer
        return parts
