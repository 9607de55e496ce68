"""The variants of algorithms that suit a topology: grids, segments, radices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.radix import primes, square
from collalgo.algorithms.row import own_parameters
from collalgo.schedule import LANES
from collalgo.topology.rings import Ring

#: The numbers of segments of trees and chains.
SEGMENTS = (4, 16, 64, 256)

#: The numbers of blocks of algorithms whose schedule depends on it: each is traced.
BLOCKS = (8, 32)

#: The numbers of segments on grids and hierarchies: what one moves inside the hosts, or
#: along one axis, overlaps with what another moves between hosts, or along the next.
OVERLAPPING = (4, 16, 64)

#: The numbers of ranks of an exchange, or of children in a tree.
RADICES = (4, 8)

#: The number of hosts above which not all need to exchange with all at once.
MANY = 8

NONE: Mapping[str, Any] = MappingProxyType({})


def variants(
    row: Algorithm,
    hosts: Sequence[int],
    cycles: Sequence[Sequence[int]],
    axes: tuple[int, ...] = (),
) -> Iterator[Algorithm]:
    """An algorithm with the parameters that suit a topology.

    Parameters
    ----------
    row
        The algorithm.
    hosts
        The number of ranks of each host.
    cycles
        Rings through the ranks of a host that share no link, for algorithms of several
        rings.
    axes
        The dimensions of the grid of the links; empty without one.
    """
    known = own_parameters(row.function)
    given, size = dict(row.parameters), sum(hosts)
    several = row.hierarchical and len(hosts) > 1 and max(hosts) > 1
    own = {"hosts": tuple(hosts)} if len(hosts) > 1 and "hosts" in known else {}
    if "dims" in known and "segments" in given:
        yield from _along_links(row, size, axes)
    elif "dims" in known:
        alike = len(set(hosts)) == 1
        nested = _nested(row, hosts[0], len(hosts)) if several and alike else []
        yield from _on_grids(row, size, nested, axes)
    elif "segments" in given:
        yield from _with_each(row, "segments", SEGMENTS, own)
    elif "blocks" in known:
        yield from _with_each(row, "blocks", BLOCKS)
    elif "radix" in given:
        yield from _with_each(row, "radix", [k for k in RADICES if k <= size or k == 4])
    elif "cycles" in known and cycles:
        yield row.with_parameters({"cycles": tuple(map(tuple, cycles))})
    elif several and own:
        yield from _overlapping(row, size, own)
    else:
        yield row


def _overlapping(
    row: Algorithm, size: int, own: Mapping[str, Any]
) -> Iterator[Algorithm]:
    """An algorithm in one piece, and in segments where it has lanes for them."""
    yield row.with_parameters(own) if own else row
    segmented = [*_with_each(row, "segments", OVERLAPPING, own)]
    if segmented[0].obstacle(size) is None:
        yield from segmented


def _with_each(
    row: Algorithm, name: str, values: Iterable[int], own: Mapping[str, Any] = NONE
) -> Iterator[Algorithm]:
    """An algorithm with each value of a parameter, beside others."""
    return (row.with_parameters({**own, name: value}) for value in values)


def _along_links(
    row: Algorithm, size: int, axes: tuple[int, ...]
) -> Iterator[Algorithm]:
    """Pipelines along the links of a grid of as many dimensions."""
    for dims in _links(row, size, axes):
        own = {"dims": dims} if dims else {}
        yield from (row.with_parameters({**own, "segments": n}) for n in SEGMENTS)


def _on_grids(
    row: Algorithm,
    size: int,
    nested: list[tuple[int, ...]],
    axes: tuple[int, ...],
) -> Iterator[Algorithm]:
    """An algorithm on the grid of the links and on those of hosts."""
    if "axes" not in own_parameters(row.function):  # any number of dimensions will do
        grids = [*filter(None, [axes]), *(nested or [()])]
    else:
        grids = _links(row, size, axes) or nested or [()]
    for dims in grids:  # empty stands for the algorithm's own default
        own = {"dims": dims} if dims else {}
        yield from _overlapping(row, size, own)


def _links(row: Algorithm, size: int, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The grid of links, if an algorithm has its dimensions; empty if by default."""
    wanted = dict(row.parameters).get("axes", 2)
    if len(axes) != wanted:
        return []
    return [() if axes == square(size, wanted) else axes]


def _nested(row: Algorithm, each: int, hosts: int) -> list[tuple[int, ...]]:
    """Grids of the ranks of a host and the hosts.

    With three dimensions the hosts form a grid that is nearly a square; so they may
    where all ranks of a dimension exchange with all, if the hosts are many.
    """
    plain = each, hosts
    outer, inner = square(hosts)
    cube = each, inner, outer
    if row.name == "blueconnect":
        return [(each, *primes(hosts))]
    if dict(row.parameters).get("axes") == 3:
        return [cube]
    if row.name == "bcube" and hosts > MANY and inner > 1:
        return [plain, cube]
    return [plain]


def twin_of(row: Algorithm, size: int, cycles: Sequence[Sequence[int]]) -> str | None:
    """The name of the algorithm that has the same schedule there, or None."""
    if row.name == "multi_ring" and len(cycles) == 1:
        return "ring"
    if row.name == "binary_blocks" and size & (size - 1) == 0:
        return "halving_doubling"
    return None


def without_twins(
    rows: Iterable[Algorithm], size: int, cycles: Sequence[Sequence[int]]
) -> list[Algorithm]:
    """The algorithms without those that have the same schedule as another there."""
    rows = list(rows)
    names = {row.name for row in rows}
    return [row for row in rows if twin_of(row, size, cycles) not in names]


def grids_of(row: Algorithm, each: int, hosts: int) -> Iterator[tuple[int, ...]]:
    """The grids of ranks along which an algorithm may be symmetric.

    Parameters
    ----------
    row
        The algorithm, with its parameters.
    each, hosts
        The ranks of a host, and the hosts.
    """
    given = dict(row.parameters)
    if cycles := given.get("cycles"):
        between = each // len(cycles)  # the beginnings of two of them
        if between * len(cycles) == each:
            yield between, len(cycles), hosts
    if dims := given.get("dims"):
        yield dims
    yield each, hosts


def cycles_of(
    found: Sequence[Ring], each: Sequence[str], hosts: int, nics: int
) -> list[list[int]]:
    """The cycles for several rings, as the numbers of the ranks of a host.

    On one host each NVLink carries a ring in each direction. Between hosts the cycle
    of each NIC starts at another rank, so that all NICs are ends of a ring. Rings in
    one direction are at most as many as lanes between two ranks.
    """
    number = {device: i for i, device in enumerate(each)}
    cycles = []
    for ring in found:
        there = [number[device] for device in ring.order]
        directions = [there, there[:1] + there[:0:-1]]
        cycles += [directions[i % 2] for i in range(min(ring.count, LANES))]
    if hosts == 1:
        return cycles
    first = cycles[0] if cycles else list(range(len(each)))
    starts = [i * len(each) // nics for i in range(nics)]
    return [first[start:] + first[:start] for start in starts]
