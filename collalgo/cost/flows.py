"""Greatest flows and least cuts, in a network of sets of devices that are alike.

networkx has them too, but takes longer to import than most cuts to compute.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeAlias

from collalgo.cost.equitable import EquitablePartition

DeviceSet = frozenset[str]

#: The largest flow from or to each device; None for any amount.
Ends: TypeAlias = Mapping[str, int | None]

#: The capacity that each set has left to each of its neighbours.
Residual: TypeAlias = list[dict[int, int]]


def least_cut(
    alike: EquitablePartition, sources: Ends, sinks: Ends, factor: int
) -> tuple[int, DeviceSet]:
    """The greatest flow from sources to sinks, and the source side of a least cut.

    Parameters
    ----------
    alike
        The partition of the network.
    sources, sinks
        The largest flow from or to each device.
    factor
        A factor of the capacities of all links.
    """
    parts: dict[object, list[str]] = defaultdict(list)
    for device in sources.keys() | sinks.keys():
        parts[sources.get(device, 0), sinks.get(device, 0)].append(device)
    alike = alike.refined(parts.values())
    source, sink = len(alike.sets), len(alike.sets) + 1
    links = [(a, b, capacity * factor) for a, b, capacity in alike.contracted()]
    unlimited = 1 + sum(capacity for *_, capacity in links)
    for number, members in enumerate(alike.sets):
        one, count = next(iter(members)), len(members)
        if one in sources:
            links.append((source, number, _limit(sources[one], count, unlimited)))
        if one in sinks:
            links.append((number, sink, _limit(sinks[one], count, unlimited)))
    left = _residual(links, sink + 1)
    value = _greatest_flow(left, source, sink)
    behind = _depths([_reversed(left, a) for a in range(sink + 1)], sink)
    chosen = (part for number, part in enumerate(alike.sets) if number not in behind)
    return value, frozenset[str]().union(*chosen)


def _limit(each: int | None, count: int, unlimited: int) -> int:
    return unlimited if each is None else each * count


def _residual(links: Iterable[tuple[int, int, int]], count: int) -> Residual:
    left: Residual = [{} for _ in range(count)]
    for a, b, capacity in links:
        left[a][b] = capacity
        left[b].setdefault(a, 0)
    return left


def _reversed(left: Residual, a: int) -> dict[int, int]:
    """The capacity that the neighbours of a set have left to it."""
    return {b: left[b][a] for b in left[a]}


def _greatest_flow(left: Residual, source: int, sink: int) -> int:
    """The greatest flow, which is taken from the capacities (Dinic)."""
    total = 0
    while sink in (depths := _depths(left, source)):
        total += _blocking_flow(left, depths, source, sink)
    return total


def _depths(left: Residual, start: int) -> dict[int, int]:
    """The least number of links to each set that can be reached."""
    found, queue = {start: 0}, [start]
    for a in queue:
        for b, capacity in left[a].items():
            if capacity and b not in found:
                found[b] = found[a] + 1
                queue.append(b)
    return found


def _blocking_flow(
    left: Residual, depths: Mapping[int, int], source: int, sink: int
) -> int:
    """Fill shortest paths until none is left: the flow on them."""
    following = {
        a: [b for b in left[a] if left[a][b] and depths[b] == depth + 1]
        for a, depth in depths.items()
    }
    total, path = 0, [source]
    while path:
        last = path[-1]
        if last == sink:
            total += _fill(left, path)
            continue
        follow = following[last]
        while follow and not left[last][follow[-1]]:
            follow.pop()
        if follow:
            path.append(follow[-1])
        else:
            path.pop()
            if path:
                following[path[-1]].pop()
    return total


def _fill(left: Residual, path: list[int]) -> int:
    """Fill a path, and go back on it to the first link that is full."""
    links = [*pairwise(path)]
    flow = min(left[a][b] for a, b in links)
    for a, b in links:
        left[a][b] -= flow
        left[b][a] += flow
    del path[next(i for i, (a, b) in enumerate(links, 1) if not left[a][b]) :]
    return flow
