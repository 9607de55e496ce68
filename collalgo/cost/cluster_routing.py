"""The routes in a cluster of uniform hosts, derived from those of two hosts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from collalgo._kernels.cost.loads import loads_of
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.routing import (
    DirectedLink,
    LinkLoads,
    Route,
    Routes,
    in_network,
)
from collalgo.cost.uniform_cluster import UniformCluster, contents
from collalgo.schedule.transfers import Ints, Reals
from collalgo.topology.places import host_after_host, ranks_of


class ClusterRoutes:
    """The routes of a cluster whose ranks fill the hosts in order.

    Parameters
    ----------
    cluster
        The machine.
    host_devices
        The devices of the first host in the order of their ranks.
    link_model
        The costs of a message.
    """

    def __init__(
        self,
        cluster: UniformCluster,
        host_devices: Sequence[str] = (),
        link_model: LinkModel = DEFAULTS,
    ):
        self.cluster = cluster
        self.link_model = link_model
        self._devices = cluster.host_devices
        self._number_links()
        self._tabulate()
        self._set_order(host_devices or self._devices)
        self._tile(cluster.hosts)

    def _tile(self, hosts: int) -> None:
        """Number the links of a number of hosts one host after the other."""
        self._hosts, each = hosts, len(self._links)
        self.speed = np.tile(self._speed, hosts)
        mine = [i for i, (link, _) in enumerate(self._links) if link.assumed]
        first = each * np.arange(hosts)
        self.assumed = (first[:, None] + np.array(mine, np.int64)).ravel()

    def _set_order(self, host_devices: Sequence[str]) -> None:
        """Assign the ranks of a host to its devices."""
        self._position = np.array([*map(self._devices.index, host_devices)])

    def reordered(self, host_devices: Sequence[str]) -> "ClusterRoutes":
        """The same routes for another order of the ranks of each host."""
        other = copy(self)
        other._set_order(host_devices)
        return other

    def folded(self, period: int) -> "ClusterRoutes":
        """The routes of the first ``period`` ranks, which represent all others."""
        other = copy(self)
        other._tile(period // len(self._devices))
        return other

    def _number_links(self) -> None:
        """Number the directed links of a host, and match those of the last host."""
        topology = self.cluster.pair
        self._pair_routes = Routes(topology, ranks_of(topology), self.link_model)
        first = self._directed_links(topology.hosts[0])
        last = self._directed_links(topology.hosts[-1])
        self._of_first = {number: i for i, number in enumerate(first.values())}
        self._of_last = {last[key]: self._of_first[first[key]] for key in last}
        self._links = [*map(self._pair_routes.directed_link, first.values())]
        carries = self.link_model.bytes_per_second
        self._speed = np.array([carries(link) for link, _ in self._links])
        self._in_network = np.array(
            [in_network(link) for link, _ in self._links], float
        )

    def _tabulate(self) -> None:
        """Tabulate the loads inside a host, out of it and into it, by device pairs.

        A message into the first host is one from the first into the last, which is
        alike.
        """
        find, devices = self._pair_routes.route, self._devices
        routes = [find(a, b) for a in devices for b in devices]
        loads = [_among(self._of_first, route) for route in routes]
        if len(self.cluster.pair.hosts) > 1:
            twins = host_after_host(self.cluster.pair)[-len(devices) :]
            out = [find(a, b) for a in devices for b in twins]
            for numbers in (self._of_first, self._of_last):
                loads += [_among(numbers, route) for route in out]
            routes += out
        self._latency = np.array([route.latency for route in routes])
        self._lengths = np.array([len(parts) for parts in loads])
        self._first = np.cumsum(self._lengths) - self._lengths
        self._link = np.array([link for parts in loads for link, _ in parts], np.int64)
        self._part = np.array([part for parts in loads for _, part in parts])

    def _directed_links(self, host: str) -> dict[tuple[object, ...], int]:
        """The directed links in a host and at its ports, by a key all hosts share."""
        topology = self.cluster.pair
        position = {one: i for i, one in enumerate(contents(topology)[host])}
        found: dict[tuple[object, ...], int] = {}
        parallel: Counter[object] = Counter()
        for i, link in enumerate(topology.links):
            if position.keys().isdisjoint(link.ends):
                continue
            start, end = (position.get(end, -1) for end in link.ends)
            kind = (link.kind, link.bandwidth, link.count)
            between = frozenset((start, end)), kind
            parallel[between] += 1
            number = (*kind, parallel[between])
            found[start, end, number] = 2 * i
            found[end, start, number] = 2 * i + 1
        return found

    def directed_link(self, number: int) -> DirectedLink:
        """The link of the first host that is like this one, and the direction."""
        return self._links[number % len(self._links)]

    def in_network(self, directed_links: Ints) -> Reals:
        """1 for each directed link of a network, 0 for the others."""
        return self._in_network[directed_links % len(self._links)]

    def representatives(self, ranks: Ints) -> Ints:
        """The rank that represents each rank."""
        return ranks % (self._hosts * len(self._devices))

    def link_loads(self, source: Ints, target: Ints) -> tuple[Reals, LinkLoads]:
        """The latency in seconds of each message between ranks, and its link loads.

        A message between hosts loads the links out of one and those into the other.
        """
        n = len(self._devices)
        here, there = source // n, target // n
        out = self._position[source % n] * n + self._position[target % n]
        far = np.flatnonzero(here != there)
        into = out[far] + 2 * n * n
        out[far] += n * n
        which = np.concatenate([out, into])
        table = self._lengths, self._first, self._link, self._part
        message, link, part = loads_of(which, *table)
        host = np.concatenate([here, there[far]]) % self._hosts
        link += host[message] * len(self._links)
        both = np.concatenate([np.arange(len(source)), far])
        return self._latency[out], LinkLoads(both[message], link, part)


def _among(numbers: Mapping[int, int], route: Route) -> list[tuple[int, float]]:
    """The parts of a route on some links, by other numbers of these."""
    loads = zip(route.directed_links, route.parts, strict=True)
    return [(numbers[link], part) for link, part in loads if link in numbers]
