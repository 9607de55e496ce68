"""What a topology asks of the kernel: namespaces, bridges, cables and addresses."""

import re
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx

from collalgo.errors import TopologyError
from collalgo.topology.model import Device, Kind, Link, LinkKind, Topology

#: With a number, an interface of a host whose NICs are cabled to those of other hosts:
#: what is for it takes the shortest way of that number, if there are several.
NODE = "node"

#: No more hosts than addresses, and far fewer than would fit on a machine.
MOST_HOSTS = 250


@dataclass
class Interface:
    """An end of a cable.

    Attributes
    ----------
    namespace : str
        Where it is: the name of a host, or "" for the fabric.
    name : str
        What it is called there.
    bridge : str
        The bridge of the fabric that it belongs to.
    address : str
        Of a host, with the length of its prefix.
    """

    namespace: str
    name: str
    bridge: str = ""
    address: str = ""


@dataclass
class Cable:
    """Two interfaces, and how much goes through each way.

    ``link`` is the name of the link: its ends, as ``h0/nic0 - leaf0``.
    """

    link: str
    ends: tuple[Interface, Interface]
    bytes_per_second: float


@dataclass
class Layout:
    """A cluster as the kernel can have it.

    Attributes
    ----------
    name : str
        Short, for the names of namespaces.
    slots : dict
        How many ranks each host has.
    bridges : list of str
        In the fabric.
    cables : list of Cable
        All links.
    routes : dict
        Of hosts that pass on what is for others: for each pair of hosts the interfaces
        by which the first reaches the second, each with the address of the next one.
    """

    name: str
    slots: dict[str, int]
    bridges: list[str] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    routes: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        return list(self.slots)

    @property
    def size(self) -> int:
        """How many ranks there are in all."""
        return sum(self.slots.values())

    def interfaces(self, host: str) -> list[Interface]:
        """The interfaces of a host, in the order of its NICs."""
        ends = [end for cable in self.cables for end in cable.ends]
        return sorted(
            (end for end in ends if end.namespace == host), key=lambda end: end.name
        )

    @cached_property
    def nodes(self) -> dict[str, list[str]]:
        """The addresses of each host that passes on what is for others.

        There are as many as a host has NICs, so that its ranks can use all of them.
        """
        if not self.routes:
            return {}
        most = max(len(self.interfaces(host)) for host in self.hosts)
        return {
            host: [f"10.255.{number}.{i + 1}" for number in range(most)]
            for i, host in enumerate(self.hosts)
        }


def layout_of(topology: Topology) -> Layout:
    """What a topology asks of the kernel.

    Raises
    ------
    TopologyError
        If it has no cores, links without a rate, or switches that form a cycle.
    """
    cores = topology.devices(Kind.CORE)
    slots = {host: sum(c.host == host for c in cores) for host in topology.hosts}
    if not cores or not all(slots.values()) or len(slots) > MOST_HOSTS:
        raise TopologyError(
            f"{topology.name}: a cluster has a core for each rank, on every host, and "
            f"at most {MOST_HOSTS} hosts; here {len(cores)} cores are on {len(slots)}"
        )
    slug = re.sub(r"[^a-z0-9]+", "-", topology.name.lower()).strip("-")[:24]
    layout = Layout(slug or "cluster", slots)
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
        layout.routes = _routes(layout)
    return layout


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
        raise TopologyError(f"{end.id} is neither a NIC nor a switch, and has a cable")
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
            f"{topology.name}: its switches form a cycle, and bridges know only one way"
        )


def _routes(layout: Layout) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """By which interfaces each host reaches each other one on the shortest ways.

    In the order of the NICs: where these are numbered axis by axis, the first of the
    ways follows the axes in their order, which spreads what all send to all.
    """
    graph: nx.Graph[str] = nx.Graph()
    via: dict[tuple[str, str], tuple[str, str]] = {}
    for cable in layout.cables:
        a, b = cable.ends
        graph.add_edge(a.namespace, b.namespace)
        for here, there in ((a, b), (b, a)):
            next_address = there.address.partition("/")[0]
            via[here.namespace, there.namespace] = here.name, next_address
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    return {
        (a, b): sorted(via[a, c] for c in graph[a] if distance[c][b] < distance[a][b])
        for a in layout.hosts
        for b in layout.hosts
        if a != b
    }
