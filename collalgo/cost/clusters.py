"""Hosts that are all alike on a fabric that does not block: one stands for many.

What is in the way of a message is then in the host of its source and in that of its
target, up to the cables of their NICs. Two hosts are enough to find the roads of any
number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import isclose

import numpy as np

from collalgo.cost.figures import DEFAULTS, Figures
from collalgo.cost.roads import (
    Legs,
    Roads,
    Route,
    Way,
    ranks_of,
    spread_legs,
)
from collalgo.topology.model import Kind, Topology
from collalgo.transfers import Ints, Reals

#: What the host is called that stands for all but two.
OTHERS = "others"


@dataclass(frozen=True)
class Cluster:
    """So many hosts as the first two of a topology are.

    Attributes
    ----------
    name : str
        What it is called.
    pair : Topology
        Two of the hosts and the switches that join them, or the one host.
    hosts : int
        How many there are.
    """

    name: str
    pair: Topology
    hosts: int

    @classmethod
    def load(cls, name: str, hosts: int = 1, **parameters: object) -> "Cluster":
        """So many hosts of a machine of the collection, on a CLOS that does not block.

        Examples
        --------
        >>> Cluster.load("dgx1v", hosts=131072, nics=4).size
        1048576
        """
        pair = Topology.load(name, hosts=min(hosts, 2), **parameters)
        return cls(f"{hosts} x {name}", pair, hosts)

    @classmethod
    def of(cls, topology: Topology) -> "Cluster | None":
        """A topology as a cluster, or None where its hosts or their places differ."""
        hosts = topology.hosts
        if len(hosts) < 2 or not topology.devices(Kind.GPU, Kind.CORE):
            return None
        outside = [device for device in topology.devices() if not device.host]
        if any(device.kind is not Kind.SWITCH for device in outside):
            return None
        inside = _contents(topology)
        pictures = [_picture(topology, inside[host]) for host in hosts]
        if any(picture != pictures[0] for picture in pictures[1:]):
            return None
        above = [_leaves(topology, inside[host]) for host in hosts]
        if any(len(leaves) > 1 and leaves != above[0] for leaves in above):
            return None  # near rails and far ones differ
        if not _never_blocks(topology):
            return None
        kept = {member for host in hosts[:2] for member in inside[host]}
        leaves = above[0] | above[1]
        spines = _leaves(topology, leaves)
        pair = topology.part(kept | leaves | spines)
        return cls(topology.name, pair, len(hosts))

    @property
    def each(self) -> list[str]:
        """The devices of ranks of the first host."""
        first = self.pair.hosts[0]
        return [
            rank for rank in ranks_of(self.pair) if self.pair.device(rank).host == first
        ]

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.hosts * len(self.each)

    def lumped(self) -> tuple[Topology, dict[str, int]]:
        """Two of the hosts, and one that all others are: how many each device is.

        All switches are one, as none is in the way.
        """
        first = _contents(self.pair)[self.pair.hosts[0]]
        topology = Topology(self.name, self.pair.source)
        switch = topology.add("switches", Kind.SWITCH)
        counts = {switch: 1}
        shares = [(host, 1) for host in self.pair.hosts]
        if self.hosts > len(shares):
            shares.append((OTHERS, self.hosts - len(shares)))
        for host, count in shares:
            ids = {}
            for device in map(self.pair.device, first):
                name = f"{host}/{device.id.removeprefix(f'{device.host}/')}"
                ids[device.id] = topology.add(name, device.kind, host=host)
            counts |= dict.fromkeys(ids.values(), count)
            for link in self.pair.links:
                if not ids.keys().isdisjoint(link.ends):
                    a, b = (ids.get(end, switch) for end in link.ends)
                    topology.link(a, b, link.kind, link.bandwidth, count=link.count)
        return topology, counts


def _contents(topology: Topology) -> dict[str, list[str]]:
    """The devices of each host, in the order of adding."""
    inside: dict[str, list[str]] = defaultdict(list)
    for device in topology.devices():
        if device.host:
            inside[device.host].append(device.id)
    return inside


def _leaves(topology: Topology, below: Iterable[str]) -> set[str]:
    """The switches that some devices are linked to."""
    return {
        link.other(member)
        for member in below
        for link in topology.links_of(member)
        if topology.device(link.other(member)).kind is Kind.SWITCH
    }


def _picture(topology: Topology, ids: list[str]) -> object:
    """What is in a host and at its ports, without the names."""
    place = {member: i for i, member in enumerate(ids)}
    links = {
        (
            *sorted(place.get(end, -1) for end in link.ends),
            link.kind,
            link.bandwidth,
            link.count,
            link.latency,
        )
        for member in ids
        for link in topology.links_of(member)
    }
    return [topology.device(member).kind for member in ids], links


def _never_blocks(topology: Topology) -> bool:
    """Whether switches are one, or leaves that each have as much up as down."""
    down: dict[str, float] = defaultdict(float)
    up: dict[str, dict[str, float]] = defaultdict(dict)
    for link in topology.links:
        ends = [topology.device(end) for end in link.ends]
        switches = [end.id for end in ends if end.kind is Kind.SWITCH]
        if switches and (link.bandwidth is None or link.latency is not None):
            return False
        if len(switches) == 1:
            down[switches[0]] += link.bandwidth or 0.0
        elif len(switches) == 2:
            for a, b in (switches, switches[::-1]):
                up[a][b] = up[a].get(b, 0.0) + (link.bandwidth or 0.0)
    if len(down) == 1:
        return True
    spines = set(up) - set(down)
    return bool(spines) and all(
        set(up[leaf]) == spines
        and (
            sum(up[leaf].values()) >= down[leaf]
            or isclose(sum(up[leaf].values()), down[leaf])
        )
        for leaf in down
    )


class ClusterRoads:
    """The roads of a cluster, for ranks that fill host after host.

    Parameters
    ----------
    cluster
        The machine.
    each
        The devices of the first host in the order of their ranks.
    figures
        What messages cost.
    """

    def __init__(
        self, cluster: Cluster, each: Sequence[str] = (), figures: Figures = DEFAULTS
    ):
        self.cluster = cluster
        self.figures = figures
        self._places = cluster.each
        self._tabulate()
        self._stand(each or self._places)
        self._hosts = cluster.hosts
        self.speed = np.tile(self._speed, self._hosts)

    def _stand(self, each: Sequence[str]) -> None:
        """Let the ranks of a host stand on its places in some order."""
        self._place = np.array([*map(self._places.index, each)])

    def reordered(self, each: Sequence[str]) -> "ClusterRoads":
        """The same roads for ranks in another order on each host."""
        other = copy(self)
        other._stand(each)
        return other

    def folded(self, period: int) -> "ClusterRoads":
        """The roads of the first ranks, if all begins anew after so many of them."""
        other = copy(self)
        other._hosts = period // len(self._places)
        other.speed = np.tile(self._speed, other._hosts)
        return other

    def _tabulate(self) -> None:
        """The routes inside a host, out of it and into it, for all pairs of places.

        Those into the first host are those out of it into the last, which is alike.
        """
        topology = self.cluster.pair
        roads = Roads(topology, ranks_of(topology), self.figures)
        first, last = topology.hosts[0], topology.hosts[-1]
        ours = self._ways(first)
        self._names = [roads.name(way) for way in ours.values()]
        carries = self.figures.bytes_per_second
        self._speed = np.array([carries(link) for link, _ in self._names])
        here = {way: i for i, way in enumerate(ours.values())}
        routes = [roads.route(a, b) for a in self._places for b in self._places]
        kept = [_among(here, route) for route in routes]
        if last != first:
            twins = ranks_of(topology)[-len(self._places) :]
            out = [roads.route(a, b) for a in self._places for b in twins]
            there = {way: here[ours[sign]] for sign, way in self._ways(last).items()}
            kept += [_among(ways, route) for ways in (here, there) for route in out]
            routes += out
        self._latency = np.array([route.latency for route in routes])
        self._lengths = np.array([len(legs) for legs in kept])
        self._first = np.cumsum(self._lengths) - self._lengths
        self._way = np.array([way for legs in kept for way, _ in legs], np.int64)
        self._part = np.array([part for legs in kept for _, part in legs])

    def _ways(self, host: str) -> dict[tuple[object, ...], int]:
        """The ways in a host and at its ports, by what they are on every host."""
        topology = self.cluster.pair
        place = {one: i for i, one in enumerate(_contents(topology)[host])}
        found: dict[tuple[object, ...], int] = {}
        alike: Counter[object] = Counter()
        for i, link in enumerate(topology.links):
            if place.keys().isdisjoint(link.ends):
                continue
            start, end = (place.get(end, -1) for end in link.ends)
            kind = (link.kind, link.bandwidth, link.count)
            between = frozenset((start, end)), kind
            alike[between] += 1
            number = (*kind, alike[between])
            found[start, end, number] = 2 * i
            found[end, start, number] = 2 * i + 1
        return found

    def name(self, way: int) -> Way:
        """The link of the first host, and the direction, of a way."""
        return self._names[way % len(self._names)]

    def place(self, ranks: Ints) -> Ints:
        """Who counts as the same rank."""
        return ranks % (self._hosts * len(self._places))

    def _pair(self, source: Ints, target: Ints) -> Ints:
        """Between which places of a host, or of two, messages go, as a number."""
        n = len(self._places)
        pair: Ints = self._place[source % n] * n + self._place[target % n]
        return pair

    def legs(self, source: Ints, target: Ints) -> Legs:
        """The ways of messages between ranks."""
        n = len(self._places)
        pair = self._pair(source, target)
        far = np.flatnonzero(source // n != target // n)
        out = pair.copy()
        out[far] += n * n
        legs = self._legs(out, source // n)
        into = self._legs(pair[far] + 2 * n * n, target[far] // n)
        columns = zip(legs, into._replace(message=far[into.message]), strict=True)
        return Legs._make(map(np.concatenate, columns))

    def _legs(self, which: Ints, host: Ints) -> Legs:
        """The legs of routes of the table, in some hosts."""
        legs = spread_legs(which, self._lengths, self._first, self._way, self._part)
        legs.way[:] += host[legs.message] % self._hosts * len(self._names)
        return legs

    def latency(self, source: Ints, target: Ints) -> Reals:
        """Seconds of the first byte of each message."""
        n = len(self._places)
        far = source // n != target // n
        found: Reals = self._latency[self._pair(source, target) + far * n * n]
        return found


def _among(numbers: Mapping[int, int], route: Route) -> list[tuple[int, float]]:
    """The legs of a route on some ways, by their numbers there."""
    legs = zip(route.ways, route.parts, strict=True)
    return [(numbers[way], part) for way, part in legs if way in numbers]
