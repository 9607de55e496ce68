"""A topology as a graph of capacities: flows, and the cuts that bound them.

Links carry their bandwidth in each direction at once, and devices forward anything. The
ranks are the GPUs, or where there are none the hosts. Links of an unknown bandwidth are
taken to carry anything, so that what is derived from a cut stays a bound.

Of a cluster all hosts but two are lumped together. That changes no flow between ranks
of the two: what goes by way of the others can be spread over them evenly.
"""

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from collalgo.base.hostlist import fold
from collalgo.cost.routing import ranks_of
from collalgo.cost.uniform_cluster import OTHERS, UniformCluster
from collalgo.errors import TopologyError
from collalgo.topology.model import Link, LinkKind, Topology

if TYPE_CHECKING:
    import networkx as nx

#: Bandwidths are taken to this part of a GB/s, so that all arithmetic is exact.
GRAIN = 1_000_000

#: With more ranks only some of them are tried as ends of flows: a bound may then be
#: less than the best, but it is one.
EVERY_RANK = 64

#: The ends of a flow from or to several devices.
SOURCE, SINK = "*source*", "*sink*"

Part = frozenset[str]


class Network:
    """The capacities of the links of some kinds, in whole parts of a GB/s.

    Raises
    ------
    TopologyError
        For fewer than two ranks.
    """

    def __init__(
        self,
        machine: Topology | UniformCluster,
        kinds: Iterable[LinkKind] | None = None,
    ):
        import networkx as nx

        topology, self.counts = (
            machine.lumped() if isinstance(machine, UniformCluster) else (machine, {})
        )
        self.topology = topology
        self.ranks = [rank for rank in ranks_of(topology) if rank in topology.graph]
        if len(self.ranks) < 2:
            raise TopologyError(
                f"{topology.name} has {len(self.ranks)} ranks; a bound needs two"
            )
        wanted = set(LinkKind if kinds is None else kinds)
        self.all_links = wanted == set(LinkKind)
        self.links = [link for link in topology.links if link.kind in wanted]
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph.add_nodes_from(self.ranks)
        known = sum(link.bandwidth or 0.0 for link in self.links)
        anything = GRAIN * round(known + 1)
        for link in self.links:
            unknown = link.bandwidth is None
            capacity = anything if unknown else round((link.bandwidth or 0.0) * GRAIN)
            self._add(link, capacity * self._count(*link.ends))

    def _add(self, link: Link, capacity: int) -> None:
        for a, b in (link.ends, link.ends[::-1]):
            if self.graph.has_edge(a, b):
                self.graph.edges[a, b]["capacity"] += capacity
            else:
                self.graph.add_edge(a, b, capacity=capacity)

    def _count(self, *devices: str) -> int:
        """How many devices or links are what stands for them."""
        return max(self.counts.get(device, 1) for device in devices)

    # ---- ranks and cuts

    @cached_property
    def size(self) -> int:
        """The number of ranks."""
        return self.ranks_in(self.ranks)

    @cached_property
    def rank_set(self) -> Part:
        """The ranks."""
        return frozenset(self.ranks)

    def tried(self, root: str | None = None) -> tuple[list[str], bool]:
        """The ranks that are ends of flows, and whether no other could be worse.

        Of hosts that are alike two are enough, if one of them has the root.
        """
        if self.counts:
            return [rank for rank in self.ranks if self._count(rank) == 1], True
        count = self.alike
        if count and (root is None or root in self.ranks[:count]):
            return self.ranks[: 2 * count], True
        some = self.ranks[:: -(-len(self.ranks) // EVERY_RANK)]
        return some, len(some) == len(self.ranks)

    @cached_property
    def alike(self) -> int:
        """How many ranks each host has, if hosts are all alike, else 0."""
        cluster = UniformCluster.of(self.topology) if self.all_links else None
        return len(cluster.each) if cluster else 0

    def ranks_in(self, part: Iterable[str]) -> int:
        """How many ranks are in a set of devices."""
        return sum(map(self._count, self.rank_set.intersection(part)))

    def number(self, parts: Iterable[Part]) -> int:
        """How many sets of devices some stand for."""
        return sum(self._count(*part) for part in parts)

    def leaving(self, part: Part) -> Fraction:
        """GB/s that can leave a set of devices.

        Raises
        ------
        TopologyError
            If nothing can, so that no collective is possible.
        """
        total = sum(
            data["capacity"]
            for a in part
            for _, b, data in self.graph.edges(a, data=True)
            if b not in part
        )
        if not total:
            raise TopologyError(
                f"{self.topology.name}: nothing can leave {self.words(part)}"
            )
        return Fraction(total, GRAIN)

    def ratio(self, part: Part) -> Fraction:
        """Ranks in a set of devices for each GB/s that can leave it."""
        return Fraction(self.ranks_in(part)) / self.leaving(part)

    def crossings(self) -> tuple[int, Fraction]:
        """How many links of networks lie between all pairs of ranks, at the least.

        And GB/s that all these links carry, in both directions. Nothing of many ranks,
        which are not looked at, and of hosts that are alike, of which a cut tells it.
        """
        import networkx as nx

        if self.counts or len(self.ranks) > EVERY_RANK or self.alike:
            return 0, Fraction(1)
        free = {
            frozenset(link.ends)
            for link in self.links
            if link.bandwidth is None or link.kind is not LinkKind.NETWORK
        }
        crossed = sum(
            round(length)
            for rank in self.ranks
            for end, length in nx.single_source_dijkstra_path_length(
                self.graph, rank, weight=lambda a, b, _: frozenset((a, b)) not in free
            ).items()
            if end in self.rank_set
        )
        carried = sum(
            data["capacity"]
            for a, b, data in self.graph.edges(data=True)
            if frozenset((a, b)) not in free
        )
        return crossed, Fraction(carried or 1, GRAIN)

    # ---- flows

    def scaled(self, factor: int) -> "nx.DiGraph[str]":
        """The graph with all capacities so many times as large."""
        graph = self.graph.copy()
        for _, _, data in graph.edges(data=True):
            data["capacity"] *= factor
        return graph

    @staticmethod
    def flow(graph: "nx.DiGraph[str]", source: str, sink: str) -> tuple[int, Part]:
        """The greatest flow, and the side of the source of a least cut."""
        import networkx as nx
        from networkx.algorithms.flow import dinitz

        value, (side, _) = nx.minimum_cut(graph, source, sink, flow_func=dinitz)
        return int(value), frozenset(side) - {SOURCE}

    def around(self, ranks: Iterable[str]) -> Part:
        """Some ranks and what is theirs: the side of a least cut from all others."""
        inside = self.rank_set.intersection(ranks)
        if inside in (frozenset(), self.rank_set):
            return inside
        graph = self.scaled(1)
        plenty = sum(data["capacity"] for _, _, data in graph.edges(data=True)) + 1
        for rank in self.ranks:
            ends = (SOURCE, rank) if rank in inside else (rank, SINK)
            graph.add_edge(*ends, capacity=plenty)
        return self.flow(graph, SOURCE, SINK)[1]

    @cached_property
    def hosts(self) -> list[Part]:
        """What is in each host that has ranks."""
        inside: dict[str, set[str]] = {}
        for device in self.topology.devices():
            if device.id in self.graph:
                inside.setdefault(device.host or device.id, set()).add(device.id)
        return [frozenset(part) for part in inside.values() if self.ranks_in(part)]

    # ---- words

    def words(self, part: Part) -> str:
        """The ranks of a set in few words: whole hosts, or all but one."""
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

    def crossing(self, part: Part) -> str:
        """The links that leave a set, by their kind."""
        counts: dict[str, int] = {}
        for link in self.links:
            if len(part.intersection(link.ends)) == 1:
                count = link.count * self._count(*link.ends)
                counts[link.kind.value] = counts.get(link.kind.value, 0) + count
        return ", ".join(f"{count} x {kind}" for kind, count in counts.items())
