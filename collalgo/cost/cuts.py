"""A topology as a flow network: greatest flows and least cuts.

Links carry their bandwidth in both directions at once, and all devices forward. The
ranks are those of :mod:`collalgo.topology.places`. All bandwidths are known or assumed;
a bound rests on the assumed ones of the links across its cut.

In a cluster all hosts but two are contracted into one. That preserves all flows between
ranks of the two: a flow through the others can be spread over them evenly.
"""

from collections.abc import Collection, Iterable, Set
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from collalgo.base.hostlist import fold
from collalgo.cost.uniform_cluster import OTHERS, UniformCluster
from collalgo.errors import TopologyError
from collalgo.topology.assumed import rules_of
from collalgo.topology.model import Link, LinkKind, Topology
from collalgo.topology.places import ranks_of

if TYPE_CHECKING:
    import networkx as nx

#: Bandwidths are integers in this fraction of a GB/s, so that arithmetic is exact.
GRAIN = 1_000_000_000

#: With more ranks, only some of them are ends of flows: the bound is then valid but may
#: not be the best.
EVERY_RANK = 64

#: The ends of a flow from or to several devices.
SOURCE, SINK = "*source*", "*sink*"

DeviceSet = frozenset[str]


class Network:
    """The flow network of some links, with integer capacities.

    Parameters
    ----------
    machine
        The machine.
    kinds
        The kinds of links; by default all.
    links
        The links, of the contracted topology of a cluster; by default all.

    Raises
    ------
    TopologyError
        For fewer than two ranks.
    """

    def __init__(
        self,
        machine: Topology | UniformCluster,
        kinds: Iterable[LinkKind] | None = None,
        links: Iterable[Link] | None = None,
    ):
        import networkx as nx

        topology, self.counts = (
            machine.contracted()
            if isinstance(machine, UniformCluster)
            else (machine, {})
        )
        self.topology = topology
        self.ranks = [rank for rank in ranks_of(topology) if rank in topology.graph]
        if len(self.ranks) < 2:
            raise TopologyError(
                f"{topology.name} has {len(self.ranks)} ranks; a bound needs two"
            )
        wanted = set(LinkKind if kinds is None else kinds)
        self.all_links = wanted == set(LinkKind)
        some = topology.links if links is None else links
        self.links = [link for link in some if link.kind in wanted]
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph.add_nodes_from(self.ranks)
        self._add_links()

    def _add_links(self) -> None:
        for link in self.links:
            capacity = round((link.bandwidth or 0.0) * GRAIN)
            self._add(link, capacity * self._count(*link.ends))

    def _add(self, link: Link, capacity: int) -> None:
        for a, b in (link.ends, link.ends[::-1]):
            if self.graph.has_edge(a, b):
                self.graph.edges[a, b]["capacity"] += capacity
            else:
                self.graph.add_edge(a, b, capacity=capacity)

    def _count(self, *devices: str) -> int:
        """The number of devices or links that a device or a link represents."""
        return max(self.counts.get(device, 1) for device in devices)

    @cached_property
    def size(self) -> int:
        """The number of ranks."""
        return self.ranks_in(self.ranks)

    @cached_property
    def rank_set(self) -> DeviceSet:
        """The ranks."""
        return frozenset(self.ranks)

    def flow_ends(self, root: str | None = None) -> tuple[list[str], bool]:
        """The ranks that are ends of flows, and whether they are sufficient.

        Of uniform hosts two are sufficient, if one of them has the root.
        """
        if self.counts:
            return [rank for rank in self.ranks if self._count(rank) == 1], True
        count = self.ranks_per_host
        if count and (root is None or root in self.ranks[:count]):
            return self.ranks[: 2 * count], True
        some = self.ranks[:: -(-len(self.ranks) // EVERY_RANK)]
        return some, len(some) == len(self.ranks)

    @cached_property
    def ranks_per_host(self) -> int:
        """The number of ranks of each host, if all hosts are uniform, else 0."""
        cluster = UniformCluster.of(self.topology) if self.all_links else None
        return len(cluster.host_devices) if cluster else 0

    def ranks_in(self, part: Iterable[str]) -> int:
        """The number of ranks in a set of devices."""
        return sum(map(self._count, self.rank_set.intersection(part)))

    def number(self, parts: Iterable[DeviceSet]) -> int:
        """The number of sets of devices that some sets represent."""
        return sum(self._count(*part) for part in parts)

    def leaving(self, part: DeviceSet) -> Fraction:
        """The GB/s out of a set of devices.

        Raises
        ------
        TopologyError
            If no link leaves the set, so that no collective is possible.
        """
        total = sum(
            data["capacity"]
            for a in part
            for _, b, data in self.graph.edges(a, data=True)
            if b not in part
        )
        if not total:
            raise TopologyError(
                f"{self.topology.name}: no link leaves {self.describe(part)}"
            )
        return Fraction(total, GRAIN)

    def ratio(self, part: DeviceSet) -> Fraction:
        """The ranks in a set of devices per GB/s out of it."""
        return Fraction(self.ranks_in(part)) / self.leaving(part)

    def crossings(self) -> tuple[int, Fraction]:
        """The least network links between all pairs of ranks, and the GB/s of all.

        Both are summed, the latter over both directions. The result is 0 links for many
        ranks, where it would take too long, and for uniform hosts, where a cut is as
        good.
        """
        if self.counts or len(self.ranks) > EVERY_RANK or self.ranks_per_host:
            return 0, Fraction(1)
        free = {
            frozenset(link.ends)
            for link in self.links
            if link.kind is not LinkKind.NETWORK
        }
        crossed = sum(self._hops(rank, free) for rank in self.ranks)
        carried = sum(
            data["capacity"]
            for a, b, data in self.graph.edges(data=True)
            if frozenset((a, b)) not in free
        )
        return crossed, Fraction(carried or 1, GRAIN)

    def _hops(self, rank: str, free: Set[DeviceSet]) -> int:
        """The sum of the least links to all other ranks, without free ones."""
        import networkx as nx

        lengths = nx.single_source_dijkstra_path_length(
            self.graph, rank, weight=lambda a, b, _: frozenset((a, b)) not in free
        )
        return sum(round(lengths[end]) for end in lengths if end in self.rank_set)

    def scaled(self, factor: int) -> "nx.DiGraph[str]":
        """The graph with all capacities multiplied by a factor."""
        graph = self.graph.copy()
        for _, _, data in graph.edges(data=True):
            data["capacity"] *= factor
        return graph

    @staticmethod
    def flow(
        graph: "nx.DiGraph[str]", source: str, sink: str, **options: Any
    ) -> tuple[int, DeviceSet]:
        """The greatest flow, and the source side of a least cut."""
        import networkx as nx
        from networkx.algorithms.flow import dinitz

        value, (side, _) = nx.minimum_cut(
            graph, source, sink, flow_func=dinitz, **options
        )
        return int(value), frozenset(side) - {SOURCE}

    @cached_property
    def _separable(self) -> "tuple[nx.DiGraph[str], nx.DiGraph[str], int]":
        """The graph with a source before and a sink behind each rank.

        Beside it its residual network, which takes longer to build than a flow, and
        the capacity of these links, which limits no flow.
        """
        from networkx.algorithms.flow import build_residual_network

        graph = self.graph.copy()
        plenty = sum(data["capacity"] for _, _, data in graph.edges(data=True)) + 1
        graph.add_edges_from(((SOURCE, rank) for rank in self.ranks), capacity=plenty)
        graph.add_edges_from(((rank, SINK) for rank in self.ranks), capacity=plenty)
        return graph, build_residual_network(graph, "capacity"), plenty

    def around(self, ranks: Iterable[str]) -> DeviceSet:
        """The side of a least cut that separates some ranks from all others."""
        inside = self.rank_set.intersection(ranks)
        if inside in (frozenset(), self.rank_set):
            return inside
        graph, residual, plenty = self._separable
        for rank in self.ranks:
            is_inside = rank in inside
            residual[SOURCE][rank]["capacity"] = plenty if is_inside else 0
            residual[rank][SINK]["capacity"] = 0 if is_inside else plenty
        return self.flow(graph, SOURCE, SINK, residual=residual)[1]

    @cached_property
    def hosts(self) -> list[DeviceSet]:
        """The devices of each host with ranks."""
        inside: dict[str, set[str]] = {}
        for device in self.topology.devices():
            if device.id in self.graph:
                inside.setdefault(device.host or device.id, set()).add(device.id)
        return [frozenset(part) for part in inside.values() if self.ranks_in(part)]

    def describe(self, part: DeviceSet) -> str:
        """Describe the ranks of a set: whole hosts, or all but one."""
        ranks = [rank for rank in self.ranks if rank in part]
        names = {self.topology.device(rank).host or rank for rank in ranks}
        of_hosts = [host & self.rank_set for host in self.hosts]
        whole = all(host <= part for host in of_hosts if host & part)
        if whole and len(names) < len(ranks):
            hosts = self.topology.hosts
            if OTHERS in names and self.counts:
                left = [host for host in hosts if host not in names]
                return f"all hosts but {fold(left)}"
            return fold([host for host in hosts if host in names])
        if len(ranks) == len(self.ranks) - 1:
            return f"all but {next(rank for rank in self.ranks if rank not in part)}"
        return fold(ranks)

    def assumed_across(self, parts: Iterable[Collection[str]]) -> tuple[str, ...]:
        """What is assumed of the links that leave some disjoint sets of devices."""
        number = {device: i for i, part in enumerate(parts) for device in part}
        return rules_of(
            link
            for link in self.links
            if number.get(link.ends[0]) != number.get(link.ends[1])
        )

    def crossing(self, part: DeviceSet) -> str:
        """Describe the links that leave a set, by their kind."""
        counts: dict[str, int] = {}
        for link in self.links:
            if len(part.intersection(link.ends)) == 1:
                count = link.count * self._count(*link.ends)
                counts[link.kind.value] = counts.get(link.kind.value, 0) + count
        return ", ".join(f"{count} x {kind}" for kind, count in counts.items())
