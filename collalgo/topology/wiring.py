"""Devices, and the links between them by their ends."""

from collections.abc import Iterable, Iterator, KeysView, Sequence
from typing import TYPE_CHECKING

from collalgo.topology.elements import Device, Link, LinkKind

if TYPE_CHECKING:
    import networkx as nx


class Wiring:
    """Devices by their ids, and links by their ends and kinds, in order of addition."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        # Both directions share the links of two devices.
        self._near: dict[str, dict[str, dict[LinkKind, Link]]] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._devices

    @property
    def graph(self) -> "nx.MultiGraph[str]":
        """A copy for networkx, which takes long to import.

        Nodes are device ids with the attribute ``device``; edges have the kind of link
        as their key and the attribute ``link``.
        """
        import networkx as nx

        graph: nx.MultiGraph[str] = nx.MultiGraph()
        for device in self._devices.values():
            graph.add_node(device.id, device=device)
        for link in self.links:
            graph.add_edge(*link.ends, key=link.kind, link=link)
        return graph

    def put(self, device: Device) -> None:
        """Add a device, or replace the one with its id."""
        self._devices[device.id] = device
        self._near.setdefault(device.id, {})

    def join(self, link: Link) -> None:
        """Add a link, or replace the one with its ends and kind."""
        a, b = link.ends
        links = self._near[a].setdefault(b, {})
        links[link.kind] = self._near[b].setdefault(a, links)[link.kind] = link

    def remove(self, ids: Iterable[str]) -> None:
        """Remove devices with their links."""
        for id in ids:
            del self._devices[id]
            for other in self._near.pop(id):
                del self._near[other][id]

    def unlink(self, link: Link) -> None:
        """Remove the link with these ends and this kind, if there is one."""
        a, b = link.ends
        links = self.between(a, b)
        if links.pop(link.kind, None) and not links:
            del self._near[a][b], self._near[b][a]

    def copy_from(self, other: "Wiring") -> None:
        """Add all devices and links of another one."""
        for device in other._devices.values():
            self.put(device)
        for id in other._devices:
            for link in other.links_of(id):
                self.join(link)

    @property
    def links(self) -> list[Link]:
        """All links."""
        found: list[Link] = []
        seen: set[str] = set()
        for id, near in self._near.items():
            for other, links in near.items():
                if other not in seen:
                    found.extend(links.values())
            seen.add(id)
        return found

    def links_of(self, id: str) -> Iterator[Link]:
        """The links of a device."""
        return (link for links in self._near[id].values() for link in links.values())

    def between(self, a: str, b: str) -> dict[LinkKind, Link]:
        """The links between two devices."""
        return self._near.get(a, {}).get(b, {})

    def neighbours(self, id: str) -> KeysView[str]:
        """The devices that are linked to a device."""
        return self._near[id].keys()

    def degree(self, id: str) -> int:
        """The number of links of a device."""
        return sum(map(len, self._near[id].values()))


def connected(
    ids: Iterable[str], pairs: Iterable[tuple[str, str]]
) -> Iterator[set[str]]:
    """The sets of ids that pairs of ids connect, also of those in pairs only."""
    near: dict[str, list[str]] = {id: [] for id in ids}
    for a, b in pairs:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    for id in [*near]:
        if id not in near:
            continue
        found: set[str] = set()
        front = {id}
        while front:
            found |= front
            front = {other for id in front for other in near.pop(id)} - found
        yield found


def is_connected(ids: Sequence[str], pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether pairs connect all of some ids, and have no others."""
    return len(next(connected(ids, pairs))) == len(ids)
