"""Uniform hosts on a non-blocking fabric, so that one host represents many.

Only links in the host of the sender and in the host of the receiver, up to the cables
of their NICs, then limit a message. Two hosts are enough to find the routes between any
number of hosts; see :mod:`collalgo.cost.cluster_routing`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from typing import NamedTuple

from collalgo.cost.link_model import LinkModel
from collalgo.errors import TopologyError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology.model import Kind, Link, Topology
from collalgo.topology.places import ranks_of

#: The kinds of devices inside of hosts that ranks are on.
INSIDE = (Kind.GPU, Kind.CORE, Kind.CPU)

#: The name of the host that represents all but two.
OTHERS = "others"

#: The most hosts: a million ranks on hosts of eight GPUs.
MOST_HOSTS = 1 << 17


@dataclass(frozen=True)
class UniformCluster:
    """A number of hosts that are all like the first two of a topology.

    Attributes
    ----------
    name : str
        The name of the cluster.
    pair : Topology
        Two of the hosts and the switches that join them, or the one host.
    hosts : int
        The number of hosts.
    """

    name: str
    pair: Topology
    hosts: int

    @classmethod
    def load(cls, name: str, hosts: int = 1, **parameters: object) -> "UniformCluster":
        """Hosts of a named machine, joined by a non-blocking CLOS.

        Raises
        ------
        TopologyError
            If there are more than :data:`MOST_HOSTS`, or the machine is not one host.

        Examples
        --------
        >>> UniformCluster.load("dgx1v", hosts=131072, nics=4).size
        1048576
        """
        if hosts > MOST_HOSTS:
            raise TopologyError(
                f"{name}: hosts={hosts} exceeds {MOST_HOSTS}, the largest number that "
                "can be priced"
            )
        pair = Topology.load(name, hosts=min(hosts, 2), **parameters)
        if len(pair.hosts) != min(hosts, 2):
            raise TopologyError(
                f"{name} is {len(pair.hosts) // min(hosts, 2)} hosts, but a cluster "
                "needs machines of one host; choose a machine of one host, or load "
                "fewer hosts as a topology"
            )
        return cls(f"{hosts} x {name}", pair, hosts)

    @classmethod
    def of(cls, topology: Topology) -> "UniformCluster | None":
        """A topology as a cluster, or None if its hosts or their cabling differ."""
        hosts = topology.hosts
        if len(hosts) < 2 or not topology.devices(*INSIDE):
            return None
        outside = [device for device in topology.devices() if not device.host]
        if any(device.kind is not Kind.SWITCH for device in outside):
            return None
        views = _views(topology)
        first, second, *_ = (views[host] for host in hosts)
        if not all(view.is_like(first) for view in views.values()):
            return None
        if not never_blocks(topology):
            return None
        leaves = first.leaves | second.leaves
        spines = _spines(topology, leaves)
        pair = topology.part({*first.members, *second.members} | leaves | spines)
        return cls(topology.name, pair, len(hosts))

    @property
    def host_devices(self) -> list[str]:
        """The devices of the ranks of the first host."""
        return ranks_of(self.pair, self.pair.hosts[0])

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.hosts * len(self.host_devices)

    def contracted(self) -> tuple[Topology, dict[str, int]]:
        """Contract all hosts but two into one, and all switches into one.

        Returns
        -------
        topology, counts
            The contracted topology, and the number of devices that each of its devices
            represents. Switches can be one, as no switch limits the bandwidth.
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
                    _copy(topology, link, a, b)
        return topology, counts


def _copy(topology: Topology, link: Link, a: str, b: str) -> None:
    """Link two devices as two others are linked."""
    topology.link(
        a, b, link.kind, link.bandwidth, count=link.count, assumed=link.assumed
    )


def contents(topology: Topology) -> dict[str, list[str]]:
    """The devices of each host, in order of addition."""
    inside: dict[str, list[str]] = defaultdict(list)
    for device in topology.devices():
        if device.host:
            inside[device.host].append(device.id)
    return inside


class _HostView(NamedTuple):
    """A host: its devices, its leaf switches, and its structure without names."""

    members: list[str]
    leaves: set[str]
    signature: tuple[list[Kind], set[tuple[object, ...]]]

    def is_like(self, other: "_HostView") -> bool:
        """Whether two hosts have the same structure and equivalent leaf switches."""
        # Rails to several leaves are only equivalent if these are the same.
        same_rails = len(self.leaves) <= 1 or self.leaves == other.leaves
        return self.signature == other.signature and same_rails


def _views(topology: Topology) -> dict[str, _HostView]:
    """The view of each host."""
    devices = {device.id: device for device in topology.devices()}
    views: dict[str, _HostView] = {}
    position: dict[str, int] = {}
    for host, members in contents(topology).items():
        views[host] = _HostView(
            members, set(), ([devices[m].kind for m in members], set())
        )
        position |= {member: i for i, member in enumerate(members)}
    for link in topology.links:
        for end, other in (link.ends, link.ends[::-1]):
            host = devices[end].host
            if not host:
                continue
            view = views[host]
            if devices[other].kind is Kind.SWITCH:
                view.leaves.add(other)
            there = position[other] if devices[other].host == host else -1
            what = link.kind, link.bandwidth, link.count, link.latency
            view.signature[1].add((*sorted((position[end], there)), *what))
    return views


def _spines(topology: Topology, leaves: set[str]) -> set[str]:
    """The switches above some leaf switches."""
    others = (link.other(leaf) for leaf in leaves for link in topology.links_of(leaf))
    return {other for other in others if not topology.device(other).host}


def never_blocks(topology: Topology) -> bool:
    """Whether the fabric is one switch, or leaves with as much bandwidth up as down.

    All leaves divide it over the spines in the same proportions, as messages are.
    """
    switches = {device.id for device in topology.devices(Kind.SWITCH)}
    links = [link for link in topology.links if switches.intersection(link.ends)]
    if any(link.bandwidth is None or link.latency is not None for link in links):
        return False
    down: dict[str, float] = defaultdict(float)
    up: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for link in links:
        for a, b in (link.ends, link.ends[::-1]):
            if a in switches and b in switches:
                up[a][b] += link.bandwidth or 0.0
            elif a in switches:
                down[a] += link.bandwidth or 0.0
    return len(down) == 1 or _is_even(up, down)


def _is_even(up: Mapping[str, Mapping[str, float]], down: Mapping[str, float]) -> bool:
    """Whether leaves reach all spines alike, with as much bandwidth up as down."""
    spines = set(up) - set(down)
    leaves = [up.get(leaf, {}) for leaf in down]
    totals = [sum(leaf.values()) for leaf in leaves]
    return bool(spines) and all(
        set(leaf) == spines
        and (total >= least or isclose(total, least))
        and _is_proportional(leaf, leaves[0])
        for leaf, total, least in zip(leaves, totals, down.values(), strict=True)
    )


def _is_proportional(up: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the bandwidths to the same spines are in the same proportions."""
    total, others = sum(up.values()), sum(other.values())
    return all(isclose(up[one] * others, other[one] * total) for one in up)


def port_bound(
    collective: str, cluster: UniformCluster, link_model: LinkModel
) -> float:
    """A lower bound of the seconds per byte of the buffer, by the ports of the hosts.

    It takes no flow computation; the ports are one of the cuts of :func:`~.bound`.
    """
    host = cluster.pair.hosts[0]
    ports = [
        link_model.bytes_per_second(link)
        for link in cluster.pair.links
        if [cluster.pair.device(end).host for end in link.ends].count(host) == 1
    ]
    known = COLLECTIVES[collective]
    if cluster.hosts == 1 or not known.carries_data:
        return 0.0
    elsewhere = (cluster.hosts - 1) / cluster.hosts
    if collective == "allreduce":  # every element leaves the host and comes back
        crossings = 2 * elsewhere
    elif known.blocks:  # an alltoall has blocks for each rank
        crossings = elsewhere * len(cluster.host_devices) ** (known.blocks - 1)
    else:
        crossings = 1.0
    return crossings / sum(ports)
