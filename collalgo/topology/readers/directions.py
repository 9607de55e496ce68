"""Links whose two directions a file gives as edges of their own."""

import math
from collections import defaultdict
from collections.abc import Iterator

from collalgo.base.units import counted
from collalgo.topology.model import Link, Topology


def both_ways(topology: Topology, links: list[Link]) -> Iterator[Link]:
    """The links of directed edges: those there and those back share their cables.

    A link has one bandwidth, so the slower of two directions that differ is taken,
    with a warning. A link that is given in one direction only has both.
    """
    pairs: dict[tuple[object, ...], list[Link]] = defaultdict(list)
    for link in links:
        key = link.kind, *sorted(link.ends)
        pairs[key].append(link)
    for found in pairs.values():
        there = [link for link in found if link.ends == found[0].ends]
        back = [link for link in found if link.ends != found[0].ends]
        yield from _slower(topology, there, back) if back else there


def _slower(topology: Topology, there: list[Link], back: list[Link]) -> list[Link]:
    """The direction to take, with a warning if they differ."""
    speeds = _speed(there), _speed(back)
    if speeds[0] == speeds[1] and speeds[0] < math.inf:
        return there
    unequal = speeds[0] != speeds[1]
    taken = min(there, back, key=_speed if unequal else len)
    if unequal or len(there) != len(back):
        text = _speed_text if unequal else _cables
        topology.warn(
            f"{there[0]}: {text(there)} in one direction, {text(back)} back; "
            f"{text(taken)} is used"
        )
    return taken


def _speed(links: list[Link]) -> float:
    """GB/s of all of them to nine digits; infinite if one is unknown."""
    speeds = [math.inf if x.bandwidth is None else x.bandwidth for x in links]
    return float(f"{math.fsum(speeds):.9g}")


def _speed_text(links: list[Link]) -> str:
    speed = _speed(links)
    return f"{speed:g} GB/s" if speed < math.inf else "an unknown speed"


def _cables(links: list[Link]) -> str:
    return counted(len(links), "cable")
