"""The layout of a cluster: namespaces, bridges, cables and addresses."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import networkx as nx

from collalgo.errors import TopologyError
from collalgo.topology.model import Device, Kind, Link, LinkKind, Topology

#: The prefix of the node interfaces of a host whose NICs are cabled to other hosts.
#: Of several shortest paths, the number of the interface selects the path to it.
NODE = "node"

#: The most hosts, limited by the addresses.
MOST_HOSTS = 250

#: An interface of a host, and the address at the other end of its cable.
Hop: TypeAlias = tuple[str, str]


@dataclass
class Interface:
    """An end of a cable.

    Attributes
    ----------
    namespace : str
        The host of the interface, or "" for the fabric.
    name : str
        Its name there.
    bridge : str
        Its bridge in the fabric.
    address : str
        Its address on a host, with the prefix length.
    """

    namespace: str
    name: str
    bridge: str = ""
    address: str = ""


@dataclass
class Cable:
    """Two interfaces, and the rate in each direction.

    ``link`` is the name of the link by its ends, such as ``h0/nic0 - leaf0``.
    """

    link: str
    ends: tuple[Interface, Interface]
    bytes_per_second: float

    @property
    def topology_link(self) -> str:
        """The name by which :meth:`Topology.without` takes the link."""
        return self.link.replace(" - ", "-")


@dataclass
class Layout:
    """The layout of a cluster in the kernel.

    Attributes
    ----------
    name : str
        A short name, for namespaces.
    slots : dict
        The number of ranks of each host.
    bridges : list of str
        The bridges in the fabric.
    cables : list of Cable
        All links.
    routes : dict
        For hosts that forward: for each pair of hosts, the interfaces on the shortest
        paths from the first to the second, each with the address of the next hop.
    """

    name: str
    slots: dict[str, int]
    bridges: list[str] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    routes: dict[tuple[str, str], list[Hop]] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        return list(self.slots)

    @property
    def size(self) -> int:
        """The total number of ranks."""
        return sum(self.slots.values())

    def interfaces(self, host: str) -> list[Interface]:
        """The interfaces of a host, in the order of its NICs."""
        ends = [end for cable in self.cables for end in cable.ends]
        return sorted(
            (end for end in ends if end.namespace == host), key=lambda end: end.name
        )

    def cable(self, link: str) -> Cable:
        """The cable of a link, named by its ends or by a NIC.

        Raises
        ------
        TopologyError
            If no link, or more than one, has this name.
        """
        found = [c for c in self.cables if link in (c.link, *c.link.split(" - "))]
        if len(found) != 1:
            names = ", ".join(cable.link for cable in self.cables)
            raise TopologyError(
                f"{len(found)} links are called {link!r}; there are {names}"
            )
        return found[0]

    @cached_property
    def nodes(self) -> dict[str, list[str]]:
        """The node addresses of each host that forwards.

        A host has one for each NIC, so that its ranks can use all NICs.
        """
        if not self.routes:
            return {}
        most = max(len(self.interfaces(host)) for host in self.hosts)
        return {
            host: [f"10.255.{number}.{i + 1}" for number in range(most)]
            for i, host in enumerate(self.hosts)
        }


def layout_of(topology: Topology) -> Layout:
    """The layout of a topology.

    Raises
    ------
    TopologyError
        If it has no cores, links without a rate, or switches that form a cycle.
    """
    layout = Layout(_name(topology), _slots(topology))
    switches = [device.id for device in topology.devices(Kind.SWITCH)]
    layout.bridges = [f"br{i}" for i in range(len(switches))]
    _refuse_cycles(topology, switches)
    numbers = _nic_numbers(topology)
    for number, link in enumerate(_network(topology)):
        if not link.bandwidth:
            raise TopologyError(f"{topology.name}: {link} has no bandwidth")
        ends = [topology.device(end) for end in link.ends]
        direct = all(end.host for end in ends)
        made = [
            _interface(end, number, i, numbers, switches, layout, direct)
            for i, end in enumerate(ends)
        ]
        name = " - ".join(link.ends)
        layout.cables.append(Cable(name, (made[0], made[1]), link.bandwidth * 1e9))
    if any(all(end.namespace for end in cable.ends) for cable in layout.cables):
        layout.routes = routes_over(layout.cables)
    return layout


def layout_of_file(file: Path) -> Layout:
    """The layout of the topology in a file.

    Its name is unique to this file: the clusters of two checkouts may be up at once.

    Raises
    ------
    TopologyError
        If the file cannot be read, or is not a cluster.
    """
    layout = layout_of(Topology.read(file))
    place = hashlib.sha256(str(file.resolve()).encode()).hexdigest()
    layout.name += f"-{place[:8]}"
    return layout


def _name(topology: Topology) -> str:
    """The name of a topology, shortened for namespaces."""
    slug = re.sub(r"[^a-z0-9]+", "-", topology.name.lower()).strip("-")[:24]
    return slug or "cluster"


def _slots(topology: Topology) -> dict[str, int]:
    """The number of ranks of each host, one for each core."""
    cores = topology.devices(Kind.CORE)
    slots = {host: sum(c.host == host for c in cores) for host in topology.hosts}
    if not cores or not all(slots.values()) or len(slots) > MOST_HOSTS:
        raise TopologyError(
            f"{topology.name}: {len(cores)} cores on {len(slots)} hosts cannot be "
            f"emulated; pass 1 to {MOST_HOSTS} hosts, each with a core for each rank"
        )
    return slots


def _network(topology: Topology) -> list[Link]:
    return [link for link in topology.links if link.kind is LinkKind.NETWORK]


def _nic_numbers(topology: Topology) -> dict[str, int]:
    """The number of each NIC among those of its host."""
    return {
        nic.id: number
        for host in topology.hosts
        for number, nic in enumerate(topology.devices(Kind.NIC, host=host))
    }


def _interface(
    end: Device,
    cable: int,
    side: int,
    numbers: dict[str, int],
    switches: list[str],
    layout: Layout,
    direct: bool,
) -> Interface:
    """The end of a cable at a NIC or at a switch."""
    if end.kind is Kind.SWITCH:
        return Interface("", f"p{cable}{'ab'[side]}", f"br{switches.index(end.id)}")
    if end.id not in numbers:
        raise TopologyError(
            f"{end.id} has a network link but is neither a NIC nor a switch; link a NIC"
        )
    number = numbers[end.id]
    address = f"10.1.{number + 1}.{layout.hosts.index(end.host) + 1}/16"
    if direct:
        address = f"10.254.{cable // 64}.{cable % 64 * 4 + 1 + side}/30"
    return Interface(end.host, f"eth{number}", address=address)


def _refuse_cycles(topology: Topology, switches: list[str]) -> None:
    between = [
        link.ends for link in _network(topology) if set(link.ends) <= {*switches}
    ]
    if between and not nx.is_forest(nx.Graph(between)):
        raise TopologyError(
            f"{topology.name}: its switches form a cycle; bridges need a tree"
        )


def routes_over(cables: Sequence[Cable]) -> dict[tuple[str, str], list[Hop]]:
    """The interfaces of each host on the shortest paths to each other host.

    The widest path comes first, as where the metric of a link is its rate, and equals
    are in the order of the NICs. With NICs numbered axis by axis, the first path
    follows the axes in order, which spreads the traffic of an alltoall.

    Parameters
    ----------
    cables
        The cables of the cluster that work. Hosts that they do not connect have no
        route to each other.
    """
    graph: nx.Graph[str] = nx.Graph()
    via: dict[tuple[str, str], Hop] = {}
    for cable in cables:
        a, b = cable.ends
        graph.add_edge(a.namespace, b.namespace, rate=cable.bytes_per_second)
        for here, there in ((a, b), (b, a)):
            next_address = there.address.partition("/")[0]
            via[here.namespace, there.namespace] = here.name, next_address
    found: dict[tuple[str, str], list[Hop]] = {}
    for target in graph:
        hops = _next_hops(graph, target)
        for host, widths in hops.items():
            order = sorted(widths, key=lambda hop: (-widths[hop], via[host, hop]))
            found[host, target] = [via[host, hop] for hop in order]
    return found


def _next_hops(graph: "nx.Graph[str]", target: str) -> dict[str, dict[str, float]]:
    """The next hosts on shortest paths to a target from each other host.

    Each has the rate of the narrowest link on the widest of these paths through it.
    """
    distance = nx.single_source_shortest_path_length(graph, target)
    widest, found = {target: math.inf}, {}
    for host in list(distance)[1:]:  # the nearest first
        found[host] = {
            hop: min(link["rate"], widest[hop])
            for hop, link in graph[host].items()
            if distance[hop] < distance[host]
        }
        widest[host] = max(found[host].values())
    return found
