"""The routes of SimGrid's platforms as cables between hosts and junctions.

A route lists the links that its messages share with those of other routes. A link that
always has the same neighbours at either end becomes a cable between two junctions, so
that all its routes share it. Any other is a medium: a switch, each of whose neighbours
has the link for itself. So is a link that no two routes share (FATPIPE), whose cables
are as wide as all its routes need together.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, wire
from collalgo.topology.model import Kind, Topology

Neighbours = dict[object, set[object]]


class Route(NamedTuple):
    """A route between two devices over links by their names, by default both ways."""

    source: str
    target: str
    links: tuple[str, ...]
    one_way: bool = False


def both_ways(
    topology: Topology, routes: list[Route], cables: Mapping[str, Cable]
) -> list[Route]:
    """The routes, of which those there and back over different links become one.

    Of the two the narrower is taken, with a warning.

    Raises
    ------
    TopologyError
        If one is a one-way route without one back.
    """
    by_ends = {(route.source, route.target): route for route in routes if route.one_way}
    found = [route for route in routes if not route.one_way]
    for (source, target), route in by_ends.items():
        back = by_ends.get((target, source))
        if back is None:
            raise TopologyError(
                f"the route from {source} to {target} is one-way, and a route back "
                "is missing; add it, or leave out symmetrical"
            )
        narrower = min(route, back, key=lambda each: _width(each, cables))
        if set(route.links) != set(back.links) and source < target:
            topology.warn(
                f"the routes from {source} to {target} and back have different links; "
                f"those from {narrower.source} to {narrower.target} are used"
            )
        if narrower is route:
            found.append(route)
    return found


def _width(route: Route, cables: Mapping[str, Cable]) -> tuple[float, str]:
    """The GB/s of the narrowest link of known speed, then the name of the source."""
    known = (cables[link].bandwidth for link in route.links)
    return min((w for w in known if w is not None), default=inf), route.source


class Network:
    """The links of some routes, each with the sides at which its neighbours are.

    A neighbour is a link by its name, or a device as ``(id,)``.
    """

    def __init__(self, topology: Topology, cables: Mapping[str, Cable]):
        self.topology = topology
        self.cables = cables
        self.sides: dict[str, dict[object, int]] = {}
        self.media: set[str] = set()
        self.parent: dict[object, object] = {}
        self.names: dict[object, str] = {}
        self.times: dict[str, int] = {}  # the routes of a link that no two share

    def add(self, routes: list[Route], not_shared: set[str]) -> None:
        """Add the links of all routes; those of ``not_shared`` are shared by no two."""
        near = self._neighbours(routes)
        self.sides = {link: _sides(beside) for link, beside in near.items()}
        passing = Counter(link for route in routes for link in set(route.links))
        self.times = {link: passing[link] for link in not_shared & passing.keys()}
        self.media = not_shared | {
            link for link, sides in self.sides.items() if not sides
        }
        self._join()
        while loops := {link for link in self._plain() if self._is_loop(link)}:
            self.media |= loops
            self._join()
        for link, beside in near.items():
            if link in self.media:
                self._add_medium(link, beside)
            else:
                self._add(link)

    def _neighbours(self, routes: list[Route]) -> dict[str, Neighbours]:
        """For each link its neighbours, each with those on the other side of it."""
        near: dict[str, Neighbours] = defaultdict(dict)
        for route in routes:
            path: list[object] = [(route.source,), *route.links, (route.target,)]
            for before, link, after in zip(path, path[1:], path[2:], strict=False):
                near[str(link)].setdefault(before, set()).add(after)
                near[str(link)].setdefault(after, set()).add(before)
            if not route.links:
                wire(self.topology, route.source, route.target, Cable(None))
        return near

    def _plain(self) -> Iterator[str]:
        return (link for link in self.sides if link not in self.media)

    def _join(self) -> None:
        """Merge the ends of links that follow each other on a route."""
        self.parent = {}
        for link in self._plain():
            for other, side in self.sides[link].items():
                if isinstance(other, str) and other not in self.media:
                    a = self._junction((link, side))
                    b = self._junction((other, self.sides[other][link]))
                    self.parent[a] = b

    def _junction(self, end: object) -> object:
        path = [end]
        while (above := self.parent.get(path[-1], path[-1])) != path[-1]:
            path.append(above)
        for one in path[:-1]:
            self.parent[one] = path[-1]
        return path[-1]

    def _is_loop(self, link: str) -> bool:
        return self._junction((link, 0)) == self._junction((link, 1))

    def _add(self, link: str) -> None:
        """Add a cable between its junctions."""
        ends = [self._device(link, side) for side in (0, 1)]
        if ends[0] != ends[1]:
            wire(self.topology, ends[0], ends[1], self.cables[link])

    def _device(self, link: str, side: int) -> str:
        """The device at an end of a link: the only one, else a junction."""
        beside = [other for other, at in self.sides[link].items() if at == side]
        if len(beside) == 1 and isinstance(beside[0], tuple):
            return str(beside[0][0])
        junction = self._named(self._junction((link, side)))
        free = Cable(self.cables[link].bandwidth, 0.0)  # no narrower than the link
        for other in beside:
            if isinstance(other, tuple):
                self._once(other[0], junction, free)
            elif other in self.media:
                self._once(self._named(other), junction, self._cable(str(other)))
        return junction

    def _add_medium(self, link: str, beside: Mapping[object, object]) -> None:
        cable = self._cable(link)
        for other in beside:
            if isinstance(other, tuple):
                self._once(other[0], self._named(link), cable)
            elif other in self.media and other != link:
                self._once(self._named(other), self._named(link), cable)

    def _cable(self, medium: str) -> Cable:
        """A cable of a medium to a neighbour."""
        cable = self.cables[medium]
        if cable.bandwidth is None:
            return cable
        width = cable.bandwidth * self.times.get(medium, 1)
        return cable._replace(bandwidth=width)

    def _named(self, end: Any) -> str:
        """The switch of a junction or of a medium, added at first use."""
        if end not in self.names:
            name = end if isinstance(end, str) else "{}.{}".format(*end)
            self.names[end] = self.topology.add(name, Kind.SWITCH, name=name)
        return self.names[end]

    def _once(self, a: str, b: str, cable: Cable) -> None:
        if a != b and not self.topology.between(a, b):
            wire(self.topology, a, b, cable)


def _sides(beside: Neighbours) -> dict[object, int]:
    """The side, 0 or 1, of each neighbour of a link; empty if they have none.

    Those before and after it on a route are on opposite sides.
    """
    sides: dict[object, int] = {}
    for first in beside:
        if first in sides:
            continue
        sides[first] = 0
        queue = [first]
        for one in queue:
            for other in beside[one]:
                if other not in sides:
                    sides[other] = 1 - sides[one]
                    queue.append(other)
                elif sides[other] == sides[one]:
                    return {}
    return sides
