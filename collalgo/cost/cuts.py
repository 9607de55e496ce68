"""A topology as a flow network: greatest flows and least cuts.

Links carry their bandwidth in both directions at once, and all devices forward. The
ranks are those of :mod:`collalgo.topology.places`. All bandwidths are known or assumed;
a bound rests on the assumed ones of the links across its cut.

In a cluster all hosts but two are contracted into one. That preserves all flows between
ranks of the two: a flow through the others can be spread over them evenly.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from fractions import Fraction
from functools import cached_property

from collalgo.base.hostlist import fold
from collalgo.base.units import counted
from collalgo.cost.equitable import EquitablePartition
from collalgo.cost.flows import DeviceSet, Ends, least_cut
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.uniform_cluster import OTHERS, UniformCluster
from collalgo.errors import TopologyError
from collalgo.topology.assumed import rules_of
from collalgo.topology.model import Link, LinkKind, Topology
from collalgo.topology.places import host_after_host, ranks_of
from collalgo.topology.wiring import is_connected

#: Bandwidths are integers in this fraction of a GB/s, so that arithmetic is exact.
GRAIN = 1_000_000_000

#: With more ranks, only some of them are ends of flows: the bound is then valid but may
#: not be the best.
EVERY_RANK = 64


#: The most links across a cut that are named.
FEW = 2


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
    link_model
        Gives the usable fraction of the bandwidth of each kind of link.

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
        link_model: LinkModel = DEFAULTS,
    ):
        topology, self.counts = (
            machine.contracted()
            if isinstance(machine, UniformCluster)
            else (machine, {})
        )
        self.topology = topology
        self.ranks = [rank for rank in ranks_of(topology) if rank in topology]
        if len(self.ranks) < 2:
            raise TopologyError(
                f"{topology.name} has fewer than two ranks ({len(self.ranks)}), which "
                "exchange no data; name a machine of two or more"
            )
        wanted = set(LinkKind if kinds is None else kinds)
        only = () if kinds is None else sorted(kind.value for kind in wanted)
        self._link_words = f"{' or '.join(only)} link".strip()
        self.all_links = wanted == set(LinkKind)
        some = topology.links if links is None else links
        self.links = [link for link in some if link.kind in wanted]
        #: The capacity to each neighbour of each device, the same both ways.
        self.capacities: dict[str, dict[str, int]] = {rank: {} for rank in self.ranks}
        self._add_links(link_model)

    def _add_links(self, link_model: LinkModel) -> None:
        for link in self.links:
            usable = link_model.efficiency.get(link.kind, 1.0)
            capacity = round((link.bandwidth or 0.0) * usable * GRAIN)
            capacity *= self._count(*link.ends)
            for a, b in (link.ends, link.ends[::-1]):
                near = self.capacities.setdefault(a, {})
                near[b] = near.get(b, 0) + capacity

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

        Of uniform hosts two are sufficient, if one of them has the root; of a tree one
        rank of those that are alike, as an automorphism exchanges them.
        """
        if self.counts:
            return [rank for rank in self.ranks if self._count(rank) == 1], True
        count = self.ranks_per_host
        by_host = host_after_host(self.topology) if count else []
        if count and (root is None or root in by_host[:count]):
            return by_host[: 2 * count], True
        if len(self.ranks) <= EVERY_RANK:
            return self.ranks, True
        alike = self._alike.refined([[root]] if root else [])
        different = [
            one for one in map(next, map(iter, alike.sets)) if one in self.rank_set
        ]
        if self._is_tree:
            return different, True
        spread = self.ranks[:: -(-len(self.ranks) // EVERY_RANK)]
        return [*dict.fromkeys([*different, *spread])][:EVERY_RANK], False

    @property
    def _is_tree(self) -> bool:
        near = self.capacities
        pairs = [(a, b) for a in near for b in near[a] if a < b]
        if len(pairs) != len(near) - 1:
            return False
        return is_connected([*near], pairs)

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

    def leaving(self, *parts: DeviceSet) -> Fraction:
        """The GB/s out of a set of devices, or out of each of several in total.

        Raises
        ------
        TopologyError
            If no link leaves a set, so that no collective is possible.
        """
        total = 0
        for part in parts:
            out = sum(
                capacity
                for a in part
                for b, capacity in self.capacities[a].items()
                if b not in part
            )
            if not out:
                raise TopologyError(
                    f"{self.topology.name}: no {self._link_words} leaves "
                    f"{self.describe(part)}"
                )
            total += out
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
            capacity
            for a, near in self.capacities.items()
            for b, capacity in near.items()
            if frozenset((a, b)) not in free
        )
        return crossed, Fraction(carried or 1, GRAIN)

    def _hops(self, rank: str, free: Set[DeviceSet]) -> int:
        """The sum of the least links to all other ranks, without free ones."""
        total, hops, seen, front = 0, 0, {rank}, [rank]
        while front:
            for a in front:  # and what free links add to it
                near = [b for b in self.capacities[a] if frozenset((a, b)) in free]
                front.extend(new := [b for b in near if b not in seen])
                seen.update(new)
            total += hops * len(self.rank_set.intersection(front))
            around = {b for a in front for b in self.capacities[a]} - seen
            hops, seen, front = hops + 1, seen | around, [*around]
        return total

    @cached_property
    def _alike(self) -> EquitablePartition:
        """The devices that are alike for flows, ranks apart from others."""
        return EquitablePartition(self.capacities, [self.ranks])

    def least_cut(
        self, sources: Ends, sinks: Ends, factor: int = 1
    ) -> tuple[int, DeviceSet]:
        """The greatest flow and a least cut; see :func:`collalgo.cost.flows.least_cut`.

        All capacities are multiplied by the factor.
        """
        return least_cut(self._alike, sources, sinks, factor)

    def different(self, parts: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Sets of ranks, of many only those that are of other kinds of devices."""
        if len(parts) <= EVERY_RANK:
            return list(parts)
        kinds = {self._alike.kinds_of(part): part for part in reversed(parts)}
        return list(kinds.values())[-EVERY_RANK:]

    def around(self, ranks: Iterable[str]) -> DeviceSet:
        """The side of a least cut that separates some ranks from all others."""
        inside = self.rank_set.intersection(ranks)
        outside = self.rank_set - inside
        if not inside or not outside:
            return inside
        return self.least_cut(dict.fromkeys(inside), dict.fromkeys(outside))[1]

    @cached_property
    def hosts(self) -> list[DeviceSet]:
        """The devices of each host with ranks."""
        inside: dict[str, set[str]] = {}
        for device in self.topology.devices():
            if device.id in self.capacities:
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
        if len(ranks) == len(self.ranks) - 1 > 1:
            return f"all but {next(rank for rank in self.ranks if rank not in part)}"
        return fold(ranks)

    def assumed_across(self, parts: Iterable[Collection[str]]) -> tuple[str, ...]:
        """The assumptions on the links that leave some disjoint sets of devices."""
        number = {device: i for i, part in enumerate(parts) for device in part}
        return rules_of(
            link
            for link in self.links
            if number.get(link.ends[0]) != number.get(link.ends[1])
        )

    def crossing(self, part: DeviceSet) -> str:
        """Describe the links that leave a set, by their kind; few are named."""
        counts: dict[str, int] = {}
        crossing = [e for e in self.links if len(part.intersection(e.ends)) == 1]
        for link in crossing:
            count = link.count * self._count(*link.ends)
            counts[link.kind.value] = counts.get(link.kind.value, 0) + count
        words = " and ".join(
            counted(count, f"{kind} link") for kind, count in counts.items()
        )
        if self.counts or len(crossing) > FEW:
            return words
        return f"{words} ({', '.join(' - '.join(link.ends) for link in crossing)})"
