"""The roads of hosts that are all alike, from those between two of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from collalgo._kernels.cost.loads import legs_of
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.routing import (
    Legs,
    Route,
    Routes,
    Way,
    in_network,
    ranks_of,
)
from collalgo.cost.uniform_cluster import UniformCluster, contents
from collalgo.schedule.transfers import Ints, Reals


class ClusterRoutes:
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
        self,
        cluster: UniformCluster,
        each: Sequence[str] = (),
        figures: LinkModel = DEFAULTS,
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

    def reordered(self, each: Sequence[str]) -> "ClusterRoutes":
        """The same roads for ranks in another order on each host."""
        other = copy(self)
        other._stand(each)
        return other

    def folded(self, period: int) -> "ClusterRoutes":
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
        roads = Routes(topology, ranks_of(topology), self.figures)
        first, last = topology.hosts[0], topology.hosts[-1]
        ours = self._ways(first)
        self._names = [roads.name(way) for way in ours.values()]
        carries = self.figures.bytes_per_second
        self._speed = np.array([carries(link) for link, _ in self._names])
        self._in_network = np.array([in_network(a) for a, _ in self._names], float)
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
        place = {one: i for i, one in enumerate(contents(topology)[host])}
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

    def in_network(self, ways: Ints) -> Reals:
        """1 for each way that is one of a network, 0 for the others."""
        return self._in_network[ways % len(self._names)]

    def place(self, ranks: Ints) -> Ints:
        """Who counts as the same rank."""
        return ranks % (self._hosts * len(self._places))

    def trips(self, source: Ints, target: Ints) -> tuple[Reals, Legs]:
        """Seconds of the first byte of messages between ranks, and their ways.

        A message to another host takes its way out of one and its way into the other.
        """
        n = len(self._places)
        here, there = source // n, target // n
        out = self._place[source % n] * n + self._place[target % n]
        far = np.flatnonzero(here != there)
        into = out[far] + 2 * n * n
        out[far] += n * n
        message, way, part = legs_of(
            np.concatenate([out, into]),
            self._lengths,
            self._first,
            self._way,
            self._part,
        )
        host = np.concatenate([here, there[far]]) % self._hosts
        way += host[message] * len(self._names)
        both = np.concatenate([np.arange(len(source)), far])
        return self._latency[out], Legs(both[message], way, part)


def _among(numbers: Mapping[int, int], route: Route) -> list[tuple[int, float]]:
    """The legs of a route on some ways, by their numbers there."""
    legs = zip(route.ways, route.parts, strict=True)
    return [(numbers[way], part) for way, part in legs if way in numbers]
