"""Machines with faults: without some elements, or with slower links."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from numbers import Real
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.assumed import with_assumed_speeds
from collalgo.topology.elements import check
from collalgo.topology.model import Link, LinkKind, Topology

#: Between the two ends of a link in its name.
BETWEEN = "-"

#: The form of a link in messages and tables: maybe with its kind, and with spaces.
_SHOWN = re.compile(
    rf"(?:({'|'.join(kind.value for kind in LinkKind)})\s+)?(?:from\s+)?"
    r"(\S+)\s+(?:-|->|<->|to)\s+(\S+)"
)

#: The advice for an element that carries no data.
REMOVE = "remove a failed element by without()"

#: The most names that an error lists.
LISTED = 8


class Element(NamedTuple):
    """A device, all devices of a host, or all links between two devices."""

    name: str
    devices: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


class Faults(NamedTuple):
    """The failed and the slow elements of a machine, by name."""

    lost: tuple[str, ...] = ()
    slow: tuple[tuple[str, float], ...] = ()

    def of(self, topology: Topology) -> Topology:
        """The topology with these faults; a part of a slow element may be lost.

        Raises
        ------
        TopologyError
            If an element is named twice, or a name is of none.
        """
        _check_once(topology, self)
        slower = _slowed(topology, self.slow) if self.slow else topology
        return without(slower, *self.lost) if self.lost else slower


#: No faults.
WHOLE = Faults()


def without(topology: Topology, *names: str) -> Topology:
    """The topology without some links, devices or hosts."""
    lost = [_element(topology, name) for name in names]
    devices = {device for element in lost for device in element.devices}
    rest = topology.part({d.id for d in topology.devices()} - devices)
    for link in {link for element in lost for link in element.links}:
        rest.unlink(link)
    return _named(rest, topology, f"without {', '.join(names)}")


def degraded(topology: Topology, name: str, factor: float) -> Topology:
    """The topology with slower links."""
    return _slowed(topology, ((name, factor),))


def _check_once(topology: Topology, faults: Faults) -> None:
    """Refuse an element with two faults, maybe by two of its names."""
    named = [(f"{name} at {factor}", name) for name, factor in faults.slow]
    named += [(f"without {name}", name) for name in faults.lost]
    first: dict[object, str] = {}
    for fault, name in named:
        element = _element(topology, name)
        key = element.devices, frozenset(element.links)
        if key in first:
            raise TopologyError(
                f"{topology.name}: {element.name} has two faults: {first[key]}, and "
                f"{fault}; give one"
            )
        first[key] = fault


def _slowed(topology: Topology, faults: tuple[tuple[str, float], ...]) -> Topology:
    """The topology with slower links; of the fractions of a link the least counts."""
    left: dict[Link, float] = {}
    for name, factor in faults:
        if not isinstance(factor, Real) or not 0 < factor <= 1:
            raise TopologyError(
                f"{name}={factor!r}: the remaining fraction of the bandwidth must be "
                f"above 0 and at most 1; {REMOVE}"
            )
        for link in _links(topology, _element(topology, name)):
            left[link] = min(left.get(link, 1.0), factor)
    known = with_assumed_speeds(topology)
    found = topology.part({device.id for device in topology.devices()})
    for link, factor in left.items():
        _slow_down(found, known.between(*link.ends)[link.kind], factor)
    words = " ".join(f"with {name} at {factor:g}" for name, factor in faults)
    return _named(found, topology, words)


def _links(topology: Topology, element: Element) -> set[Link]:
    """The links of an element, or of its devices."""
    of_devices = [link for one in element.devices for link in topology.links_of(one)]
    return {*element.links, *of_devices}


def _slow_down(topology: Topology, link: Link, factor: float) -> None:
    """Put a slower link in place of one of known speed."""
    left = (link.bandwidth or 0.0) * factor
    slow = replace(link, bandwidth=left, fraction=link.fraction * factor)
    try:
        check(slow)
    except TopologyError as error:
        raise TopologyError(f"{error}; {REMOVE}") from None
    topology.join(slow)


def _named(found: Topology, whole: Topology, fault: str) -> Topology:
    """A topology with a fault in its name, and the warnings of the whole one."""
    found.name = f"{whole.name} {fault}".strip()
    for text in whole.warnings:
        found.warn(text)
    return found


def _element(topology: Topology, name: str) -> Element:
    """The element of a name.

    Raises
    ------
    TopologyError
        If no element, or more than one, has the name, or it is not a text.
    """
    if not isinstance(name, str):
        raise TopologyError(
            f"{topology.name}: {name!r} is not the name of a device, host or link; "
            f"write it as 'host0' or 'gpu0{BETWEEN}gpu1'"
        )
    found = _elements(topology, name)
    if not found:
        raise TopologyError(
            f"{topology.name}: there is no device, host or link {name!r}; a link is "
            f"named by its ends, as gpu0{BETWEEN}gpu1, and collalgo topo show lists all"
        )
    if len(found) > 1:
        names = [element.name for element in found[:LISTED]]
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        raise TopologyError(
            f"{topology.name}: {name!r} may be {', '.join(names)}{more}; name one "
            "of them"
        )
    return found[0]


def _elements(topology: Topology, name: str) -> list[Element]:
    """The elements with a name: a host, else devices, else links."""
    if name in topology.hosts:
        of_host = [d.id for d in topology.devices() if name in (d.host, d.id)]
        return [Element(name, tuple(of_host))]
    ids = [device.id for device in topology.devices()]
    if devices := _ending(ids, name):
        return [Element(device, (device,)) for device in devices]
    found = {}
    for kind, first, second in _named_ends(name):
        for ends in product(_ending(ids, first), _ending(ids, second)):
            links = topology.between(*ends).items()
            between = [link for key, link in links if kind in ("", key)]
            if between:
                label = BETWEEN.join(ends)
                found[frozenset(ends)] = Element(label, links=tuple(between))
    return [*found.values()]


def _named_ends(name: str) -> Iterator[tuple[str, str, str]]:
    """The kind, or "" for all, and the two ends that the name of a link may mean."""
    if shown := _SHOWN.fullmatch(name.strip()):
        yield shown[1] or "", shown[2], shown[3]
        return
    for i in (i for i, letter in enumerate(name) if letter == BETWEEN):
        yield "", name[:i], name[i + 1 :]


def _ending(ids: list[str], name: str) -> list[str]:
    """The id that is a name, or else those that are the name after a host."""
    if not name or name in ids:
        return [name] if name else []
    return [id for id in ids if id.endswith(f"/{name}")]
