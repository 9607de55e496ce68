"""The routes of messages between the devices of ranks, and the load on each link.

A message takes the best path, and all parallel ways of the same type with as many
links, as through the NVSwitches of a server, two NICs of one PCIe switch or the spines
of a CLOS: it is divided over them in proportion to their widths.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from collalgo._kernels.cost.loads import loads_of
from collalgo.base.hostlist import fold
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.shortest_paths import ShortestPaths
from collalgo.errors import TopologyError
from collalgo.schedule.transfers import Ints, Reals
from collalgo.topology.link_index import LinkIndex, Search
from collalgo.topology.model import Kind, Link, LinkKind, Topology
from collalgo.topology.path_types import PathType, width_of
from collalgo.topology.paths import Path, paths_in
from collalgo.topology.twins import Twins

#: The most devices to which all paths from another are searched at once.
FEW_TARGETS = 512

#: A direction of a link: from its first end to its second if true, else back.
DirectedLink = tuple[Link, bool]


class LinkLoads(NamedTuple):
    """The load of messages on directed links, one entry for each message and link.

    Attributes
    ----------
    message : ndarray
        The number of the message.
    link : ndarray
        The number of the directed link.
    part : ndarray
        The fraction of the message that crosses the link.
    """

    message: Ints
    link: Ints
    part: Reals


class Routing(Protocol):
    """The routes that the price models use; directed links are numbered."""

    speed: Reals  #: bytes per second of each directed link
    assumed: Ints  #: the numbers of the directed links whose speeds are assumed
    link_model: LinkModel  #: the other costs of a message

    def link_loads(self, source: Ints, target: Ints) -> tuple[Reals, LinkLoads]:
        """The latency in seconds of each message between ranks, and its link loads."""

    def representatives(self, ranks: Ints) -> Ints:
        """The rank that represents each of these ranks."""

    def directed_link(self, number: int) -> DirectedLink:
        """The link and the direction of a number."""

    def in_network(self, directed_links: Ints) -> Reals:
        """1 for each directed link of a network, 0 for the others."""


class Route(NamedTuple):
    """The route from a device to another: the part of a message on each link."""

    directed_links: tuple[int, ...]
    parts: tuple[float, ...]
    latency: float


def in_network(link: Link) -> bool:
    """Whether a link joins hosts and switches."""
    return link.kind is LinkKind.NETWORK


class Routes:
    """The routes between the devices of ranks, one rank on each device.

    Parameters
    ----------
    topology
        The machine.
    devices
        The device of each rank.
    link_model
        The costs of a message.
    """

    def __init__(
        self,
        topology: Topology,
        devices: Sequence[str],
        link_model: LinkModel = DEFAULTS,
    ):
        self.topology = topology
        self.devices = devices
        self.link_model = link_model
        self._links = topology.links
        self._number = {id(link): i for i, link in enumerate(self._links)}
        self.speed = np.repeat([*map(link_model.bytes_per_second, self._links)], 2)
        is_assumed = [bool(link.assumed) for link in self._links]
        self.assumed = np.flatnonzero(np.repeat(np.array(is_assumed, bool), 2))
        self._in_network = np.array([*map(in_network, self._links)], float)
        self._twins = Twins(topology)
        self._index = LinkIndex(self._twins.reduced)
        kept = (self._twins.kept(device) for device in devices)
        self._targets = frozenset(one for some in kept for one in some)
        self._paths: dict[str, dict[str, Path]] = {}
        self._shortest: dict[tuple[object, ...], ShortestPaths] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        self._only_links: dict[str, int] = {}

    def reordered(self, devices: Sequence[str]) -> "Routes":
        """The same routes for ranks on other devices."""
        other = object.__new__(Routes)
        other.__dict__.update(self.__dict__, devices=devices)
        return other

    def representatives(self, ranks: Ints) -> Ints:
        """The rank that represents each rank: itself."""
        return ranks

    def directed_link(self, number: int) -> DirectedLink:
        """The link and the direction of a number."""
        return self._links[number // 2], number % 2 == 0

    def in_network(self, directed_links: Ints) -> Reals:
        """1 for each directed link of a network, 0 for the others."""
        return self._in_network[directed_links // 2]

    def link_loads(self, source: Ints, target: Ints) -> tuple[Reals, LinkLoads]:
        """The latency in seconds of each message between ranks, and its link loads."""
        count = len(self.devices)
        pairs, which = np.unique(source * count + target, return_inverse=True)
        ends = [(self.devices[p // count], self.devices[p % count]) for p in pairs]
        routes = [self.route(*pair) for pair in ends]
        lengths = np.array([len(route.directed_links) for route in routes], np.int64)
        first = np.cumsum(lengths) - lengths
        links = [link for route in routes for link in route.directed_links]
        parts = np.array([part for route in routes for part in route.parts])
        latency = np.array([route.latency for route in routes])[which]
        loads = loads_of(which, lengths, first, np.array(links, np.int64), parts)
        return latency, LinkLoads(*loads)

    def route(self, a: str, b: str) -> Route:
        """The route from a device to another."""
        if (a, b) not in self._routes:
            like = self._twins.like(a, b)
            found = self._find(a, b) if like == (a, b) else self.route(*like)
            self._routes[a, b] = self._between(like, (a, b), found)
        return self._routes[a, b]

    def _between(
        self, ends: tuple[str, str], others: tuple[str, str], route: Route
    ) -> Route:
        """A route with the links of other twins, if any, at its ends."""
        if ends == others:
            return route
        own: dict[int, int] = {}
        for i, (twin, other) in enumerate(zip(ends, others, strict=True)):
            if twin != other:
                own[self._only_link(twin) ^ i] = self._only_link(other) ^ i
        links = tuple([own.get(number, number) for number in route.directed_links])
        return route._replace(directed_links=links)

    def _only_link(self, device: str) -> int:
        """The number of the direction from a device over its only link."""
        if device not in self._only_links:
            (link,) = self.topology.links_of(device)
            self._only_links[device] = self._number_of(link, device)
        return self._only_links[device]

    def latency(self, a: str, b: str) -> float:
        """The latency in seconds from a device to another."""
        return self._latency(self._path(*self._twins.like(a, b)))

    def _latency(self, path: Path) -> float:
        given = [link.latency for link in path.links if link.latency is not None]
        return sum(given) if given else self.link_model.latency[path.type]

    def _find(self, a: str, b: str) -> Route:
        path = self._path(a, b)
        latency = self._latency(path)
        if path.type is PathType.NVB:
            hops = zip(path.devices, path.links, strict=False)
            links = tuple(self._number_of(link, device) for device, link in hops)
            return Route(links, (1.0,) * len(links), latency)
        loads = self._parallel_ways(path).loads(b)
        links = tuple([self._number_of(link, device) for device, link, _ in loads])
        return Route(links, tuple([part for _, _, part in loads]), latency)

    def _number_of(self, link: Link, start: str) -> int:
        """The number of the direction of a link that leaves a device."""
        return 2 * self._number[id(link)] + (link.ends[0] != start)

    def _path(self, a: str, b: str) -> Path:
        known = self._paths.setdefault(a, {})
        if b not in known:
            targets = self._targets if len(self._targets) <= FEW_TARGETS else {b}
            known.update(paths_in(self._index, a, targets))
        if b not in known:
            raise self._unreachable(a, b)
        return known[b]

    def _unreachable(self, a: str, b: str) -> TopologyError:
        """The error where no path leads from a device to some others."""
        far = [one for one in self.devices if one not in (a, *self._paths[a])]
        text = f"{self.topology.name}: {a} cannot reach {fold(far)}"
        parts = self._index.parts(PathType.NET)
        if parts[a] == parts[b]:
            alone = far[0] if len(far) == 1 else a
            text += (
                " directly, and the devices between them, as other GPUs, forward no "
                f"messages; remove {alone}, too"
            )
        return TopologyError(text)

    def _parallel_ways(self, path: Path) -> ShortestPaths:
        """All paths of the type and the number of links of this path.

        Links narrower than those of the path are used if they do not lead to its
        end in fewer links, as a slow link beside two fast ones would. Where hosts
        forward packets, no narrower links are used: the widest of the shortest routes
        are taken, and share a message if they are equally wide.
        """
        narrowest = min(map(width_of, path.links), default=inf)
        if self._is_forwarded(path):
            return self._shortest_paths(path, narrowest)
        found = self._shortest_paths(path, 0.0)
        if self._is_as_long(found, path):
            return found
        narrower = [width for width in self._index.widths if width <= narrowest]
        first = bisect_left(
            narrower,
            True,
            key=lambda width: self._is_as_long(self._shortest_paths(path, width), path),
        )
        return self._shortest_paths(path, narrower[first])

    def _is_forwarded(self, path: Path) -> bool:
        """Whether the processors of other hosts pass the packets on."""
        places = [self.topology.device(one) for one in path.devices]
        ends = {places[0].host, places[-1].host}
        return any(one.kind is Kind.CPU and one.host not in ends for one in places)

    @staticmethod
    def _is_as_long(paths: ShortestPaths, path: Path) -> bool:
        return paths.distance.get(path.devices[-1]) == len(path.links)

    def _shortest_paths(self, path: Path, least_width: float) -> ShortestPaths:
        """The shortest paths of the type of a path, by links of a least width."""
        inner = path.devices[1:-1]
        routers = (Kind.HOST, Kind.GPU)
        hosts = any(self.topology.device(one).kind in routers for one in inner)
        key = (path.devices[0], path.type, hosts, least_width)
        if key not in self._shortest:
            search = Search(self._index, path.devices[0], path.type, hosts)
            self._shortest[key] = ShortestPaths(search, least_width)
        return self._shortest[key]
