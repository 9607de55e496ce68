"""The elements of a machine whose failure changes its schedules, equal ones together.

Two elements count as equal if colour refinement of the machine cannot tell them
apart: devices begin with a colour for their kind, and take a new one from the colours
and links of their neighbours until no more colours differ (Weisfeiler and Leman, 1968).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.base.digest import blake2b
from collalgo.cost.placement import Placement
from collalgo.cost.routing import Routes
from collalgo.topology.faults import BETWEEN
from collalgo.topology.model import Kind, Link, Topology

#: Colours, which wrap around.
Colours = NDArray[np.uint64]

#: Factors that mix the bits of colours.
MIXING = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


class Failure(NamedTuple):
    """An element that may fail: a host, a device, or the links between two devices.

    Attributes
    ----------
    kind, name : str
        Its kind, as ``nic`` or ``nvlink``, and its name as of ``Topology.without``.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def failures(placement: Placement) -> list[list[Failure]]:
    """The elements that ranks are on or that are on a route of a message, equal ones.

    Those of each list are equal; hosts come first, then devices, then links.

    Raises
    ------
    TopologyError
        If a rank cannot reach another.
    """
    topology = placement.machine
    assert isinstance(topology, Topology)
    used = _used(topology, placement.devices)
    refinement = _Refinement(topology, placement.devices)
    found: dict[object, list[Failure]] = defaultdict(list)
    for failure, marked in _elements(topology, placement.devices, used):
        found[failure.kind, refinement.signature(*marked)].append(failure)
    return [*found.values()]


def _used(topology: Topology, ranks: Sequence[str]) -> list[Link]:
    """The links on the routes between ranks."""
    source, target = np.divmod(np.arange(len(ranks) ** 2), len(ranks))
    apart = source != target
    _, loads = Routes(topology, ranks).link_loads(source[apart], target[apart])
    return [topology.links[i] for i in np.unique(loads.link // 2).tolist()]


#: The devices and the links that refinement tells from all others.
_Marked = tuple[Iterable[str], Iterable[Link]]


def _elements(
    topology: Topology, ranks: Sequence[str], used: Sequence[Link]
) -> Iterator[tuple[Failure, _Marked]]:
    """Each element, with its devices or links."""
    ends = {end for link in used for end in link.ends} | set(ranks)
    hosts = {topology.device(rank).host or "" for rank in ranks}
    for host in topology.hosts:
        if len(hosts) > 1 and host in hosts and host not in ends:
            of_host = [d.id for d in topology.devices() if d.host == host]
            yield Failure(Kind.HOST.value, host), (of_host, ())
    for device in topology.devices():
        if device.id in ends:
            yield Failure(device.kind.value, device.id), ([device.id], ())
    between: dict[frozenset[str], list[Link]] = defaultdict(list)
    for link in used:
        between[frozenset(link.ends)].append(link)
    for links in between.values():
        name = BETWEEN.join(links[0].ends)
        yield Failure(links[0].kind.value, name), ((), links)


class _Refinement:
    """Colour refinement of a machine with marked elements.

    Parameters
    ----------
    topology
        The machine.
    ranks
        The devices of ranks.
    """

    def __init__(self, topology: Topology, ranks: Sequence[str]):
        devices, chosen = topology.devices(), set(ranks)
        hosts = dict.fromkeys(device.host for device in devices)
        names = [*(device.id for device in devices), *hosts]
        self._number = {name: i for i, name in reversed([*enumerate(names)])}
        natures = [(d.kind.value, d.id in chosen) for d in devices]
        self._colour = _hashes([*natures, *("" for _ in hosts)])
        self._link = {id(link): i for i, link in enumerate(topology.links)}
        ends = [tuple(map(self._number.get, one.ends)) for one in topology.links]
        ends += [
            (i, len(devices) + [*hosts].index(d.host)) for i, d in enumerate(devices)
        ]
        self._ends = np.array(ends, np.int64).reshape(-1, 2)
        kinds = [
            (k.kind.value, k.bandwidth, k.count, k.latency) for k in topology.links
        ]
        self._nature = _hashes([*kinds, *("" for _ in devices)])

    def signature(self, devices: Iterable[str], links: Iterable[Link]) -> int:
        """A number that is the same for equal marked devices or links."""
        colour, nature = self._colour.copy(), self._nature.copy()
        colour[[self._number[one] for one in devices]] ^= MIXING[0]
        nature[[self._link[id(one)] for one in links]] ^= MIXING[0]
        count = 0
        while (distinct := len(np.unique(colour))) > count:
            count, colour = distinct, self._refined(colour, nature)
        return int(_mixed(colour).sum())

    def _refined(self, colour: Colours, nature: Colours) -> Colours:
        """The colours with those of their neighbours."""
        found = colour * MIXING[1]
        for here, there in (self._ends.T, self._ends.T[::-1]):
            np.add.at(found, here, _mixed(colour[there] + _mixed(nature)))
        return _mixed(found)


def _mixed(numbers: Colours) -> Colours:
    """Numbers whose bits depend on all bits of others."""
    for factor in MIXING:
        numbers = (numbers ^ (numbers >> np.uint64(29))) * factor
    mixed: Colours = numbers ^ (numbers >> np.uint64(32))
    return mixed


def _hashes(natures: Sequence[object]) -> Colours:
    """A number for each description."""
    known = {one: blake2b(repr(one).encode(), digest_size=8) for one in set(natures)}
    digests = b"".join(known[one].digest() for one in natures)
    numbers: Colours = np.frombuffer(digests, np.uint64).copy()
    return numbers
