"""Link-disjoint rings of NVLinks or xGMI links, and their bandwidth.

A cable carries data in both directions at once, so a cycle of cables is two directed
rings, and a GPU with k cables can be in k directed rings at most.
"""

from collections.abc import Iterator
from typing import NamedTuple

from collalgo.topology.domains import fast_domains
from collalgo.topology.model import FAST, Kind, Topology

#: The most steps of a search for cycles, a second or two. Ranks search each for itself
#: and use the same cycles, so no clock cuts it.
STEPS = 100_000

#: The number of cables between any two GPUs.
Cables = dict[str, dict[str, int]]


class Ring(NamedTuple):
    """A cycle through all GPUs of a domain.

    ``order`` are the ids of GPUs, ``count`` is the number of directed rings along the
    cycle in both directions, and ``bandwidth`` the GB/s of each of them, if known.
    """

    order: tuple[str, ...]
    count: int  # type: ignore[assignment]
    bandwidth: float | None


def rings(
    topology: Topology, gpus: tuple[str, ...] | None = None, steps: int = STEPS
) -> list[Ring]:
    """Find cycles through all GPUs of a domain that share no cable.

    Parameters
    ----------
    topology
        The machine.
    gpus
        The ids of GPUs; by default those of the largest NVLink domain.
    steps
        The most steps of the search.

    Returns
    -------
    list of Ring
        The cycles, most cables first; empty without a cycle.
    """
    gpus = gpus or next(iter(fast_domains(topology)), ())
    if len(gpus) < 2:
        return []
    switched = _switched(topology, gpus)
    if switched:
        return [switched]
    cables = _cables(topology, gpus)
    best = most_cycles(cables, steps)
    speed = _per_cable(topology, gpus)
    # Two GPUs are a cycle whose only cable carries a directed ring each way.
    directions = 1 if len(gpus) == 2 else 2
    return [Ring(cycle, directions * count, speed) for cycle, count in best]


def bandwidth(found: list[Ring]) -> float | None:
    """The GB/s of all rings together, out of each GPU; None if unknown."""
    if any(ring.bandwidth is None for ring in found):
        return None
    return sum(ring.count * (ring.bandwidth or 0.0) for ring in found)


def _switched(topology: Topology, gpus: tuple[str, ...]) -> Ring | None:
    """The ring of GPUs that NVSwitches join, in their order."""
    counts, speeds = [], []
    for gpu in gpus:
        links = [
            link
            for link in topology.links_of(gpu)
            if topology.device(link.other(gpu)).kind is Kind.NVSWITCH
        ]
        if not links:
            return None
        counts.append(sum(link.count for link in links))
        speeds += [link.bandwidth and link.bandwidth / link.count for link in links]
    known = [speed for speed in speeds if speed is not None]
    speed = min(known) if len(known) == len(speeds) else None
    return Ring(gpus, min(counts), speed)


def _cables(topology: Topology, gpus: tuple[str, ...]) -> Cables:
    cables: Cables = {gpu: {} for gpu in gpus}
    for link in topology.links:
        a, b = link.ends
        if link.kind in FAST and a in cables and b in cables:
            cables[a][b] = cables[a].get(b, 0) + link.count
            cables[b][a] = cables[b].get(a, 0) + link.count
    return cables


def _per_cable(topology: Topology, gpus: tuple[str, ...]) -> float | None:
    """The speed of the slowest cable."""
    speeds = [
        link.bandwidth and link.bandwidth / link.count
        for link in topology.links
        if link.kind in FAST and set(link.ends) <= set(gpus)
    ]
    known = [speed for speed in speeds if speed is not None]
    return min(known) if known and len(known) == len(speeds) else None


def most_cycles(
    cables: Cables, steps: int = STEPS
) -> list[tuple[tuple[str, ...], int]]:
    """Hamiltonian cycles that share no cable, each with its multiplicity.

    The search stops at the greatest number that the cables of any node allow, or after
    a number of steps with the best result so far.
    """
    left, most = iter(range(steps)), _bound(cables)
    cables = {node: dict(row) for node, row in cables.items()}
    best: list[tuple[tuple[str, ...], int]] = []
    for found in _choices(cables, left, [0]):
        if _total(found) > _total(best):
            best = found
        if _total(best) >= most:
            break
    return sorted(best, key=lambda cycle: -cycle[1])


def _total(cycles: list[tuple[tuple[str, ...], int]]) -> int:
    return sum(count for _, count in cycles)


def _bound(cables: Cables) -> int:
    """An upper bound of the number of cycles: each takes two cables of every node."""
    ends = 1 if len(cables) == 2 else 2
    return min(sum(row.values()) for row in cables.values()) // ends


def _choices(
    cables: Cables, left: Iterator[int], least: list[int], taken: int = 0
) -> Iterator[list[tuple[tuple[str, ...], int]]]:
    """Sets of cycles, depth first, pruned by the upper bound, in the steps left."""
    yield []
    if taken + _bound(cables) <= least[0]:
        return
    for cycle in _cycles(cables, left):
        count = min(cables[a][b] for a, b in _edges(cycle))
        _take(cables, cycle, count)
        for rest in _choices(cables, left, least, taken + count):
            least[0] = max(least[0], taken + count + _total(rest))
            yield [(cycle, count), *rest]
        _take(cables, cycle, -count)


def _edges(cycle: tuple[str, ...]) -> list[tuple[str, str]]:
    if len(cycle) == 2:
        return [(cycle[0], cycle[1])]
    return list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))


def _take(cables: Cables, cycle: tuple[str, ...], count: int) -> None:
    for a, b in _edges(cycle):
        cables[a][b] -= count
        cables[b][a] -= count


def _cycles(cables: Cables, left: Iterator[int]) -> Iterator[tuple[str, ...]]:
    """Hamiltonian cycles, those along the most cables first."""
    nodes = list(cables)
    first, path, seen = nodes[0], [nodes[0]], {nodes[0]}
    stack = [iter(_onward(cables, first, seen))]
    while stack and next(left, None) is not None:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            seen.discard(path.pop())
            continue
        path.append(node)
        seen.add(node)
        if len(path) == len(nodes):
            # Each cycle is found in both directions; one is kept.
            if cables[node].get(first, 0) > 0 and path[1] <= path[-1]:
                yield tuple(path)
            seen.discard(path.pop())
        else:
            stack.append(iter(_onward(cables, node, seen)))


def _onward(cables: Cables, node: str, seen: set[str]) -> list[str]:
    """The next nodes of a path: most cables first, then fewest further choices."""
    free = [n for n, count in cables[node].items() if count > 0 and n not in seen]
    choices = {n: sum(m not in seen for m, c in cables[n].items() if c) for n in free}
    return sorted(free, key=lambda n: (-cables[node][n], choices[n]))
