"""The links that messages between ranks take: others carry nothing of a schedule."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from collalgo.cost.machine import Machine
from collalgo.cost.routing import Routes
from collalgo.cost.uniform_cluster import UniformCluster, contents
from collalgo.topology.model import Link, LinkKind, Topology
from collalgo.topology.places import ranks_of

#: With more ranks of unlike hosts all links count: the routes are too many to examine.
#: Two racks have as many.
MOST_RANKS = 160


def used_links(machine: Machine) -> list[Link]:
    """The links that are on the route of a message between some two ranks.

    Those of a cluster are of its contracted topology. With many ranks all links are.

    Raises
    ------
    TopologyError
        If a rank cannot reach another.
    """
    if isinstance(machine, UniformCluster):
        pair = _only(machine.pair, used_links(machine.pair))
        return replace(machine, pair=pair).contracted()[0].links
    links = machine.links
    if len(ranks_of(machine)) <= MOST_RANKS:
        return [links[i] for i in _numbers(_Content(machine))]
    cluster = UniformCluster.of(machine)
    if cluster is None or len(ranks_of(cluster.pair)) > MOST_RANKS:
        return links
    return _like_two_hosts(machine, cluster.pair)


def _like_two_hosts(machine: Topology, pair: Topology) -> list[Link]:
    """The links that are like used ones of two of the hosts, or between switches."""
    used = {*_places(pair, used_links(pair)).values()}
    return [
        link
        for link, place in _places(machine, machine.links).items()
        if place in used or place[0] == place[1]
    ]


def _places(
    topology: Topology, links: Iterable[Link]
) -> dict[Link, tuple[int, int, LinkKind]]:
    """The positions of the ends of links in their hosts, -1 outside, and the kind."""
    position = {
        device: i
        for devices in contents(topology).values()
        for i, device in enumerate(devices)
    }
    found = {}
    for link in links:
        first, last = sorted(position.get(end, -1) for end in link.ends)
        found[link] = (first, last, link.kind)
    return found


class _Content:
    """A topology that is equal to others with the same devices and links."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self._key = (*topology.devices(), *topology.links)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=16)
def _numbers(content: _Content) -> list[int]:
    """The numbers of the links on the routes between all ranks."""
    topology = content.topology
    ranks = ranks_of(topology)
    source, target = np.divmod(np.arange(len(ranks) ** 2), len(ranks))
    apart = source != target
    _, loads = Routes(topology, ranks).link_loads(source[apart], target[apart])
    found: list[int] = np.unique(loads.link // 2).tolist()
    return found


def _only(topology: Topology, links: Iterable[Link]) -> Topology:
    """A topology with some of its links only."""
    found = topology.part({device.id for device in topology.devices()})
    for link in found.links:
        found.unlink(link)
    for link in links:
        found.join(link)
    return found
