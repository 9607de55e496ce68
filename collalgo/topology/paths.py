"""The best path between two devices: its type and its bottleneck.

A better type beats more bandwidth; more bandwidth beats fewer links.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from collalgo.topology.link_index import LinkIndex, Search
from collalgo.topology.model import FAST, Kind, Link, Topology
from collalgo.topology.path_types import PathType


class Path(NamedTuple):
    """A path between two devices.

    ``bandwidth`` is that of the narrowest link in GB/s in each direction, None if that
    of a link is unknown; ``devices`` are the ids along the path, including both ends.
    """

    type: PathType
    bandwidth: float | None
    devices: tuple[str, ...]
    links: tuple[Link, ...]


#: The absence of a path.
NO_PATH = Path(PathType.DIS, 0.0, (), ())


def best_path(topology: Topology, a: str, b: str) -> Path:
    """The best path from one device to another; of type ``DIS`` without a path.

    Parameters
    ----------
    topology
        The machine.
    a, b
        Ids of devices.

    Raises
    ------
    TopologyError
        If a device does not exist.
    """
    topology.device(b)
    return paths_in(LinkIndex(topology), a, [b]).get(b, NO_PATH)


def paths_from(
    topology: Topology, source: str, worst: PathType = PathType.NET
) -> dict[str, Path]:
    """The best paths to all devices, of types not worse than ``worst``."""
    index = LinkIndex(topology)
    return paths_in(index, source, index.kinds, worst)


def paths_in(
    index: LinkIndex,
    source: str,
    targets: Collection[str],
    worst: PathType = PathType.NET,
) -> dict[str, Path]:
    """The best paths to some devices, of types not worse than ``worst``."""
    index.topology.device(source)
    found = {source: Path(PathType.LOC, math.inf, (source,), ())}

    def missing() -> set[str]:
        return {target for target in targets if target not in found}

    def extend(limit: PathType, through_hosts: bool = False) -> None:
        together = index.parts(limit)
        if near := {id for id in missing() if together[id] == together[source]}:
            search = Search(index, source, limit, through_hosts, near)
            by_links = limit is PathType.NET and index.is_direct
            found.update((_shortest if by_links else _best)(search, limit, near))

    for limit in PathType:
        if limit > worst or not missing():
            break
        if limit is PathType.NVB:
            found |= _through_gpus(index.topology, source, found)
        if limit in index.relevant:
            extend(limit)
    if worst >= PathType.NET:
        extend(PathType.NET, through_hosts=True)  # in a torus these are routers
    return {id: path for id, path in found.items() if id in targets}


def nearest(
    index: LinkIndex, source: str, targets: Collection[str], worst: PathType
) -> dict[str, Path]:
    """The best paths to those devices whose paths have the best type of all."""
    for limit in PathType:
        if limit > worst:
            break
        if found := paths_in(index, source, targets, limit):
            return found
    return {}


def _best(search: Search, type: PathType, targets: set[str]) -> dict[str, Path]:
    """The shortest of the widest paths to each device."""
    found = {}
    widest = search.widest()
    for width in {widest[id] for id in targets if id in widest}:
        before = search.fewest_links(width)
        for id in (id for id in targets if widest.get(id) == width):
            found[id] = _path(type, *_route(before, search.source, id))
    return found


def _shortest(search: Search, type: PathType, targets: set[str]) -> dict[str, Path]:
    """The paths with the fewest links, as hosts pass messages on by routing tables."""
    before = search.fewest_links(0.0)
    return {
        id: _path(type, *_route(before, search.source, id))
        for id in targets
        if id in before
    }


def _route(
    before: dict[str, tuple[str, Link]], source: str, id: str
) -> tuple[tuple[str, ...], tuple[Link, ...]]:
    devices, links = [id], []
    while devices[-1] != source:
        previous, link = before[devices[-1]]
        devices.append(previous)
        links.append(link)
    return tuple(reversed(devices)), tuple(reversed(links))


def _path(type: PathType, devices: tuple[str, ...], links: tuple[Link, ...]) -> Path:
    widths = [link.bandwidth for link in links]
    narrowest = None if None in widths else min(w for w in widths if w is not None)
    return Path(type, narrowest, devices, links)


def _through_gpus(
    topology: Topology, source: str, found: dict[str, Path]
) -> dict[str, Path]:
    """Paths of two NVLinks or xGMI links through another GPU."""
    if topology.device(source).kind is not Kind.GPU:
        return {}
    best: dict[str, Path] = {}
    for first in _fast_to_gpus(topology, source):
        middle = first.other(source)
        for second in _fast_to_gpus(topology, middle):
            path = _joined(source, first, second)
            id = path.devices[-1]
            if id not in found and (
                id not in best or (path.bandwidth or 0) > (best[id].bandwidth or 0)
            ):
                best[id] = path
    return best


def _fast_to_gpus(topology: Topology, id: str) -> list[Link]:
    return [
        link
        for link in topology.links_of(id)
        if link.kind in FAST and topology.device(link.other(id)).kind is Kind.GPU
    ]


def _joined(source: str, first: Link, second: Link) -> Path:
    middle = first.other(source)
    route = (source, middle, second.other(middle))
    return _path(PathType.NVB, route, (first, second))


def matrix(topology: Topology, ids: Sequence[str]) -> list[list[Path]]:
    """The best paths between all pairs of some devices."""
    for id in ids:
        topology.device(id)
    index, rows = LinkIndex(topology), []
    for a in ids:
        paths = paths_in(index, a, ids)
        rows.append([paths.get(b, NO_PATH) for b in ids])
    return rows
