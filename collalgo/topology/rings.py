"""Rings of NVLinks or xGMI links that share no link: how many, and how fast.

A cable carries data in both directions at once, so a cycle of cables is two directed
rings, and a GPU with k cables can be in k directed rings at most.
"""

from collections.abc import Iterator
from time import monotonic
from typing import NamedTuple

from collalgo.topology.domains import fast_domains
from collalgo.topology.model import FAST, Kind, Topology

#: How many cables lead from each GPU to each other.
Cables = dict[str, dict[str, int]]


class Ring(NamedTuple):
    """A cycle through all GPUs of a domain.

    ``order`` are ids of GPUs, ``count`` is how many directed rings follow the cycle,
    both ways together, and ``bandwidth`` what each of them carries in GB/s, if known.
    """

    order: tuple[str, ...]
    count: int  # type: ignore[assignment]
    bandwidth: float | None


def rings(
    topology: Topology, gpus: tuple[str, ...] | None = None, seconds: float = 2.0
) -> list[Ring]:
    """Cycles through all GPUs of a domain that share no cable, as many as were found.

    Parameters
    ----------
    topology
        The machine.
    gpus
        Ids of GPUs; by default those of the largest NVLink domain.
    seconds
        When to stop looking for more.

    Returns
    -------
    list of Ring
        The most cables first; empty if there is none.
    """
    gpus = gpus or next(iter(fast_domains(topology)), ())
    if len(gpus) < 2:
        return []
    switched = _switched(topology, gpus)
    if switched:
        return [switched]
    cables = _cables(topology, gpus)
    best = most_cycles(cables, seconds)
    speed = _per_cable(topology, gpus)
    # Two GPUs are a cycle whose only cable is used both ways by one directed ring each.
    ways = 1 if len(gpus) == 2 else 2
    return [Ring(cycle, ways * count, speed) for cycle, count in best]


def bandwidth(found: list[Ring]) -> float | None:
    """What all rings carry together, in GB/s out of each GPU; None if not known."""
    if any(ring.bandwidth is None for ring in found):
        return None
    return sum(ring.count * (ring.bandwidth or 0.0) for ring in found)


def _switched(topology: Topology, gpus: tuple[str, ...]) -> Ring | None:
    """The ring of GPUs that reach each other through NVSwitches, in their order."""
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
    cables: Cables, seconds: float = 2.0
) -> list[tuple[tuple[str, ...], int]]:
    """Hamiltonian cycles that share no cable, each with how often it can be laid.

    The search stops at the most that the cables of any node allow, or when its time is
    over with the best that it has found by then.
    """
    until, most = monotonic() + seconds, _bound(cables)
    cables = {node: dict(row) for node, row in cables.items()}
    best: list[tuple[tuple[str, ...], int]] = []
    for found in _choices(cables, until, [0]):
        if _laid(found) > _laid(best):
            best = found
        if _laid(best) >= most or monotonic() > until:
            break
    return sorted(best, key=lambda cycle: -cycle[1])


def _laid(cycles: list[tuple[tuple[str, ...], int]]) -> int:
    return sum(count for _, count in cycles)


def _bound(cables: Cables) -> int:
    """No more cycles than this: each takes two cables of every node."""
    ends = 1 if len(cables) == 2 else 2
    return min(sum(row.values()) for row in cables.values()) // ends


def _choices(
    cables: Cables, until: float, least: list[int], laid: int = 0
) -> Iterator[list[tuple[tuple[str, ...], int]]]:
    """Sets of cycles, depth first; no cycle is added that cannot lead to more."""
    yield []
    if laid + _bound(cables) <= least[0]:
        return
    for cycle in _cycles(cables, until):
        count = min(cables[a][b] for a, b in _edges(cycle))
        _take(cables, cycle, count)
        for rest in _choices(cables, until, least, laid + count):
            least[0] = max(least[0], laid + count + _laid(rest))
            yield [(cycle, count), *rest]
        _take(cables, cycle, -count)
        if monotonic() > until:
            return


def _edges(cycle: tuple[str, ...]) -> list[tuple[str, str]]:
    if len(cycle) == 2:
        return [(cycle[0], cycle[1])]
    return list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))


def _take(cables: Cables, cycle: tuple[str, ...], count: int) -> None:
    for a, b in _edges(cycle):
        cables[a][b] -= count
        cables[b][a] -= count


def _cycles(cables: Cables, until: float) -> Iterator[tuple[str, ...]]:
    """Hamiltonian cycles, those along the thickest bundles of cables first."""
    nodes = list(cables)
    first, path, seen = nodes[0], [nodes[0]], {nodes[0]}

    def onward(node: str) -> list[str]:
        free = [n for n, count in cables[node].items() if count > 0 and n not in seen]
        ways = {n: sum(m not in seen for m, c in cables[n].items() if c) for n in free}
        return sorted(free, key=lambda n: (-cables[node][n], ways[n]))

    stack = [iter(onward(first))]
    while stack and monotonic() < until:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            seen.discard(path.pop())
            continue
        path.append(node)
        seen.add(node)
        if len(path) == len(nodes):
            # Each cycle is met in both directions; one will do.
            if cables[node].get(first, 0) > 0 and path[1] <= path[-1]:
                yield tuple(path)
            seen.discard(path.pop())
        else:
            stack.append(iter(onward(node)))
