"""An index of the links of a topology for path searches by type and width."""

import math
from collections.abc import Collection
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

from collalgo.topology.model import Kind, Link, LinkKind, Topology
from collalgo.topology.path_types import PathType, link_type, relays, width_of


class Hop(NamedTuple):
    """A link seen from one of its ends."""

    other: str
    link: Link
    type: PathType
    width: float


class LinkIndex:
    """The links of each device of a topology, with their path types and widths."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.kinds = {device.id: device.kind for device in topology.devices()}
        self.hops: dict[str, list[Hop]] = {id: [] for id in self.kinds}
        for link in topology.links:
            a, b = link.ends
            hop = Hop(b, link, link_type(topology, link), width_of(link))
            self.hops[a].append(hop)
            self.hops[b].append(hop._replace(other=a))
        types = {hop.type for hops in self.hops.values() for hop in hops}
        #: The path types that can reach further devices than the types before: by links
        #: of this type, by relaying at a CPU, or at a NIC.
        self.relevant = types | {PathType.PHB, PathType.NET}
        #: The GB/s of the links, each once, from narrow to wide.
        self.widths = sorted({hop.width for hops in self.hops.values() for hop in hops})
        self._onward: dict[tuple[PathType, bool], dict[str, list[Hop]]] = {}
        self._between: dict[tuple[PathType, bool], dict[str, list[Hop]]] = {}
        self._parts: dict[PathType, dict[str, str]] = {}

    def parts(self, limit: PathType) -> dict[str, str]:
        """The connected components by links up to a type, regardless of forwarding.

        Each device maps to one device that represents its component.
        """
        if limit not in self._parts:
            self._parts[limit] = parts = {}
            for first in self.hops:
                if first not in parts:
                    parts[first] = first
                    self._spread(first, limit, parts)
        return self._parts[limit]

    def _spread(self, first: str, limit: PathType, parts: dict[str, str]) -> None:
        near = [first]
        while near:
            for hop in self.hops[near.pop()]:
                if hop.type <= limit and hop.other not in parts:
                    parts[hop.other] = first
                    near.append(hop.other)

    def onward(self, limit: PathType, through_hosts: bool) -> dict[str, list[Hop]]:
        """The links by which paths up to a type can continue from each device."""
        key = limit, through_hosts
        if key not in self._onward:
            self._onward[key] = {
                id: [
                    hop
                    for hop in hops
                    if hop.type <= limit
                    and (
                        relays(self.kinds[id], hop.link, limit, through_hosts)
                        or (limit is PathType.NET and id in self._gateways)
                    )
                ]
                for id, hops in self.hops.items()
            }
        return self._onward[key]

    def between(self, limit: PathType, through_hosts: bool) -> dict[str, list[Hop]]:
        """The links of :meth:`onward` that do not end at a leaf."""
        key = limit, through_hosts
        if key not in self._between:
            self._between[key] = {
                id: [hop for hop in hops if len(self.hops[hop.other]) > 1]
                for id, hops in self.onward(*key).items()
            }
        return self._between[key]

    @cached_property
    def is_direct(self) -> bool:
        """Whether hosts, or their NICs, are linked, and none by a switch."""
        devices = self.topology.devices()
        hosts = {device.id: device.host or device.id for device in devices}
        ends = [x.ends for x in self.topology.links if x.kind is LinkKind.NETWORK]
        kinds = {self.kinds[end] for pair in ends for end in pair}
        return Kind.SWITCH not in kinds and any(hosts[a] != hosts[b] for a, b in ends)

    @cached_property
    def _gateways(self) -> set[str]:
        """The GPUs that have NICs of their own, as in MI250X: others reach them so."""
        return {
            id
            for id, kind in self.kinds.items()
            if kind is Kind.GPU
            and any(self.kinds[hop.other] is Kind.NIC for hop in self.hops[id])
        }


class Search:
    """Paths from a device, of types up to a limit.

    Attributes
    ----------
    source : str
        The first device of all paths.

    With ``targets`` it finds paths to these, and leaves out all other leaves: the
    devices of one link, as most hosts of a fabric are.
    """

    def __init__(
        self,
        index: LinkIndex,
        source: str,
        limit: PathType,
        through_hosts: bool,
        targets: Collection[str] | None = None,
    ):
        self.source = source
        self._first = [hop for hop in index.hops[source] if hop.type <= limit]
        self._onward = index.onward(limit, through_hosts)
        self._last: dict[str, list[Hop]] = {}
        if targets is not None:
            self._find_last(index, targets)
            self._onward = index.between(limit, through_hosts)

    def _find_last(self, index: LinkIndex, targets: Collection[str]) -> None:
        """Find the links that reach the leaves among the targets."""
        leaves = {id for id in targets if len(index.hops[id]) == 1}
        for above in {index.hops[id][0].other for id in leaves}:
            self._last[above] = [
                hop for hop in self._onward[above] if hop.other in leaves
            ]

    def onward(self, id: str) -> list[Hop]:
        """The links by which a path can continue from a device."""
        if id == self.source:
            return self._first
        return [*self._onward[id], *self._last.get(id, ())]

    def widest(self) -> dict[str, float]:
        """The bottleneck of the widest path to each device, widest first."""
        best: dict[str, float] = {}
        queue = [(-math.inf, self.source)]
        while queue:
            width, id = heappop(queue)
            if id in best:
                continue
            best[id] = -width
            for hop in self.onward(id):
                if hop.other not in best:
                    heappush(queue, (max(width, -hop.width), hop.other))
        return best

    def fewest_links(self, width: float) -> dict[str, tuple[str, Link]]:
        """The predecessor of each device on a shortest path of a least width.

        It is the device before and the link between them. Of equally short paths, one
        of known bandwidth comes first.
        """
        before: dict[str, tuple[str, Link]] = {}
        unknown: set[str] = set()
        level = [self.source]
        while level:
            steps = [
                (id in unknown or hop.link.bandwidth is None, -hop.width, id, hop)
                for id in level
                for hop in self.onward(id)
                if hop.width >= width
            ]
            level = []
            for vague, _, id, hop in sorted(steps, key=lambda step: step[:2]):
                if hop.other in before or hop.other == self.source:
                    continue
                before[hop.other] = id, hop.link
                level.append(hop.other)
                if vague:
                    unknown.add(hop.other)
        return before
