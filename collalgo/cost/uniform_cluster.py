"""Hosts that are all alike on a fabric that does not block: one stands for many.

What is in the way of a message is then in the host of its source and in that of its
target, up to the cables of their NICs. Two hosts are enough to find the roads of any
number; see :mod:`collalgo.cost.cluster_routing`.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import isclose
from typing import NamedTuple

from collalgo.cost.link_model import LinkModel
from collalgo.cost.routing import ranks_of
from collalgo.errors import TopologyError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology.model import Kind, Topology

#: What the host is called that stands for all but two.
OTHERS = "others"


@dataclass(frozen=True)
class UniformCluster:
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
    def load(cls, name: str, hosts: int = 1, **parameters: object) -> "UniformCluster":
        """So many hosts of a machine of the collection, on a CLOS that does not block.

        Raises
        ------
        TopologyError
            If the machine is not one host, or has nothing that ranks could be on.

        Examples
        --------
        >>> UniformCluster.load("dgx1v", hosts=131072, nics=4).size
        1048576
        """
        pair = Topology.load(name, hosts=min(hosts, 2), **parameters)
        if len(pair.hosts) != min(hosts, 2):
            raise TopologyError(
                f"{name} is {len(pair.hosts) // min(hosts, 2)} hosts, but a cluster is "
                "of machines of one host; choose one of these, or fewer of it as a "
                "topology"
            )
        if not pair.devices(Kind.GPU, Kind.CORE):
            raise TopologyError(
                f"{name} has no GPUs or cores that ranks could be on; choose a machine "
                "that has"
            )
        return cls(f"{hosts} x {name}", pair, hosts)

    @classmethod
    def of(cls, topology: Topology) -> "UniformCluster | None":
        """A topology as a cluster, or None where its hosts or their places differ."""
        hosts = topology.hosts
        if len(hosts) < 2 or not topology.devices(Kind.GPU, Kind.CORE):
            return None
        outside = [device for device in topology.devices() if not device.host]
        if any(device.kind is not Kind.SWITCH for device in outside):
            return None
        views = _views(topology)
        first, second, *_ = (views[host] for host in hosts)
        if any(view.alike != first.alike for view in views.values()):
            return None
        if any(
            len(view.leaves) > 1 and view.leaves != first.leaves
            for view in views.values()
        ):
            return None  # near rails and far ones differ
        if not _never_blocks(topology):
            return None
        leaves = first.leaves | second.leaves
        spines = {
            link.other(leaf)
            for leaf in leaves
            for link in topology.links_of(leaf)
            if not topology.device(link.other(leaf)).host
        }
        pair = topology.part({*first.members, *second.members} | leaves | spines)
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
        first = contents(self.pair)[self.pair.hosts[0]]
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


def contents(topology: Topology) -> dict[str, list[str]]:
    """The devices of each host, in the order of adding."""
    inside: dict[str, list[str]] = defaultdict(list)
    for device in topology.devices():
        if device.host:
            inside[device.host].append(device.id)
    return inside


class _View(NamedTuple):
    """A host: its devices, the switches above it, and what it has, without names."""

    members: list[str]
    leaves: set[str]
    alike: tuple[list[Kind], set[tuple[object, ...]]]


def _views(topology: Topology) -> dict[str, _View]:
    """What each host looks like."""
    devices = {device.id: device for device in topology.devices()}
    views: dict[str, _View] = {}
    place: dict[str, int] = {}
    for host, members in contents(topology).items():
        views[host] = _View(members, set(), ([devices[m].kind for m in members], set()))
        place |= {member: i for i, member in enumerate(members)}
    for link in topology.links:
        for end, other in (link.ends, link.ends[::-1]):
            host = devices[end].host
            if not host:
                continue
            view = views[host]
            if devices[other].kind is Kind.SWITCH:
                view.leaves.add(other)
            there = place[other] if devices[other].host == host else -1
            what = link.kind, link.bandwidth, link.count, link.latency
            view.alike[1].add((*sorted((place[end], there)), *what))
    return views


def _never_blocks(topology: Topology) -> bool:
    """Whether switches are one, or leaves that each have as much up as down."""
    down: dict[str, float] = defaultdict(float)
    up: dict[str, dict[str, float]] = defaultdict(dict)
    every = {device.id for device in topology.devices(Kind.SWITCH)}
    for link in topology.links:
        switches = [end for end in link.ends if end in every]
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


def through_ports(
    collective: str, cluster: UniformCluster, figures: LinkModel
) -> float:
    """Seconds for each byte of the buffer that the ports of its hosts take at least.

    It is found at once, and no more than the bound, of whose cuts it is one.
    """
    host = cluster.pair.hosts[0]
    ports = [
        figures.bytes_per_second(link)
        for link in cluster.pair.links
        if [cluster.pair.device(end).host for end in link.ends].count(host) == 1
    ]
    known = COLLECTIVES[collective]
    if cluster.hosts == 1 or not known.carries_data:
        return 0.0
    elsewhere = (cluster.hosts - 1) / cluster.hosts
    if collective == "allreduce":  # every element leaves, and comes back
        crossings = 2 * elsewhere
    elif known.blocks:  # of an alltoall those of each rank
        crossings = elsewhere * len(cluster.each) ** (known.blocks - 1)
    else:
        crossings = 1.0
    return crossings / sum(ports)
