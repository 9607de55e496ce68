"""The graph of devices and links."""

from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeVar

from collalgo.base.legible import legible
from collalgo.errors import TopologyError
from collalgo.topology.elements import (
    AS_OTHERS,
    Device,
    Kind,
    Link,
    LinkKind,
    check,
    check_printable,
    check_speed,
    identifier,
    merged,
    renamed,
)
from collalgo.topology.wiring import Wiring

#: The most devices of a topology, and the most of its links.
LARGEST, MOST_LINKS = 200_000, 250_000

#: The most devices that are linked in all pairs.
MOST_IN_PAIRS = 256

Graph = TypeVar("Graph", bound="DeviceGraph")


class DeviceGraph(Wiring):
    """Devices and links, which are added one by one.

    Attributes
    ----------
    name : str
        The name of the machine.
    source : str
        The file it was read from, or how it was built or detected.
    warnings : list of str
        Implausible or unknown values, each with the element.
    """

    def __init__(self, name: str = "", source: str = ""):
        super().__init__()
        self.name = name
        self.source = source
        self.warnings: list[str] = []
        self._warned: set[str] = set()
        self._used: dict[str, int] = {}
        self._wired = 0

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{len(self.devices(kind))} {kind.value}"
            for kind in Kind
            if self.devices(kind)
        )
        return (
            f"<Topology {self.name or self.source}: {counts}; {len(self.links)} links>"
        )

    def warn(self, text: str) -> None:
        """Add a warning, unless it was added already; it may quote a file."""
        text = legible(text)
        if text not in self._warned:
            self._warned.add(text)
            self.warnings.append(text)

    def add(
        self, id: str, kind: Kind, *, host: str = "", name: str = "", **attributes: Any
    ) -> str:
        """Add a device, and return its id, which gets a suffix if it is taken.

        Spaces, commas and brackets, which have a meaning in lists, become underscores.
        """
        if len(self._devices) >= LARGEST:
            raise TopologyError(f"{self.source}: more than {LARGEST} devices")
        unique = self._unused(identifier(id))
        for text in (host, name):
            check_printable(text)
        known = {key: value for key, value in attributes.items() if value is not None}
        if "speed" in known:
            check_speed(f"{unique}: a port", known["speed"])
        self.put(Device(unique, Kind(kind), host, name, known))
        return unique

    def _unused(self, id: str) -> str:
        """An id, or if it is taken the id with the next free suffix."""
        unique = id
        while unique in self:
            self._used[id] = self._used.get(id, 1) + 1
            unique = f"{id}#{self._used[id]}"
        if unique != id:
            self.warn(f"{id} occurs more than once; the new one is {unique}")
        return unique

    def link(
        self,
        a: str,
        b: str,
        kind: LinkKind,
        bandwidth: float | None = None,
        *,
        count: int = 1,
        latency: float | None = None,
        assumed: tuple[str, ...] = (),
    ) -> None:
        """Link two devices; further cables of the same kind add up.

        Parameters
        ----------
        a, b
            Ids of devices.
        kind
            The kind of link.
        bandwidth
            GB/s in each direction, of all ``count`` cables together.
        count
            The number of cables.
        latency
            In seconds.
        assumed
            The values that were assumed, with their rules.

        Raises
        ------
        TopologyError
            If an end is unknown or a number is out of range.
        """
        kind = LinkKind(kind)
        for end in (a, b):
            if end not in self:
                raise TopologyError(f"{kind.value} {a} - {b}: there is no device {end}")
        if a == b:
            self.warn(f"{kind.value} {a} - {b}: a link to itself is left out")
            return
        new = Link((a, b), kind, bandwidth, count, latency, assumed)
        check(new)
        if bandwidth == 0:
            self.warn(f"{new}: a bandwidth of 0 GB/s carries nothing; it is left out")
            return
        self._insert(new)

    def _insert(self, new: Link) -> None:
        if known := self.between(*new.ends).get(new.kind):
            new = merged(known, new)
            if AS_OTHERS in new.assumed:
                self.warn(f"{new}: {AS_OTHERS}")
        elif self._wired >= MOST_LINKS:  # to count edges takes linear time
            raise TopologyError(f"{self.source}: more than {MOST_LINKS} links")
        self._wired += 1
        self.join(new)

    def link_all(self, ids: Collection[str], kind: LinkKind) -> None:
        """Link all pairs of a few devices, with unknown bandwidth."""
        self.check_pairs(ids, kind)
        for a, b in combinations(ids, 2):
            self.link(a, b, kind)

    def check_pairs(self, ids: Collection[str], kind: LinkKind) -> None:
        """Refuse to link all pairs of many devices."""
        if len(ids) > MOST_IN_PAIRS:
            raise TopologyError(
                f"{len(ids)} devices are too many to be linked in pairs by "
                f"{kind.value}; at most {MOST_IN_PAIRS} are"
            )

    def include(
        self, other: "DeviceGraph", rename: dict[str, str] | None = None
    ) -> None:
        """Add another topology, with its hosts renamed."""
        names = rename or {}
        ids: dict[str, str] = {}
        for device in other.devices():
            id, host = renamed(device, names)
            ids[device.id] = self.add(
                id, device.kind, host=host, name=device.name, **device.attributes
            )
        for link in other.links:
            a, b = (ids[end] for end in link.ends)
            self._insert(replace(link, ends=(a, b)))
        for text in other.warnings:
            self.warn(text)

    def part(self: Graph, ids: Collection[str]) -> Graph:
        """Some of the devices, in order, and the links between them."""
        part = type(self)(self.name, self.source)
        for device in self.devices():
            if device.id in ids:
                part.put(device)
        for link in self.links:
            if all(end in ids for end in link.ends):
                part.join(link)
        return part

    def device(self, id: str) -> Device:
        """The device of an id."""
        try:
            return self._devices[id]
        except KeyError:
            raise TopologyError(f"{self.name}: there is no device {id!r}") from None

    def devices(self, *kinds: Kind | str, host: str | None = None) -> list[Device]:
        """All devices, or those of some kinds or of a host, in order of addition."""
        wanted = {Kind(kind) for kind in kinds} or set(Kind)
        return [
            device
            for device in self._devices.values()
            if device.kind in wanted and host in (None, device.host)
        ]

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts, with or without known devices.

        A GPU or a core that is on no host, as the NPU of a simulator, is its own.
        """
        alone = (Kind.HOST, Kind.GPU, Kind.CORE)
        names = [d.host or (d.id if d.kind in alone else "") for d in self.devices()]
        return [name for name in dict.fromkeys(names) if name]
