"""The variants of algorithms that suit a topology: grids, segments, radices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.row import own_parameters
from collalgo.cost.machine_parameters import grids_of_hosts, grids_of_links

#: The numbers of segments of trees and chains.
SEGMENTS = (4, 16, 64, 256)

#: The numbers of blocks of algorithms whose schedule depends on it: each is traced.
BLOCKS = (8, 32, 96, 192)

#: The numbers of segments on grids and hierarchies: what one moves inside the hosts, or
#: along one axis, overlaps with what another moves between hosts, or along the next.
OVERLAPPING = (4, 16, 64)

#: The numbers of ranks of an exchange, or of children in a tree.
RADICES = (4, 8)

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
        nested = grids_of_hosts(row, hosts) if row.hierarchical else []
        yield from _on_grids(row, size, nested, axes)
    elif "segments" in given:
        yield from _with_each(row, "segments", SEGMENTS, own)
    elif "blocks" in known:
        yield from _with_each(row, "blocks", BLOCKS)
    elif "radix" in given:
        yield from _with_each(row, "radix", [k for k in RADICES if k <= size or k == 4])
    elif "cycles" in known and cycles:
        yield row.with_parameters({"cycles": tuple(map(tuple, cycles))})
    else:
        yield from _overlapping(row, size, own) if several and own else (row,)


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
    """An algorithm with each value of a parameter, and fixed others."""
    return (row.with_parameters({**own, name: value}) for value in values)


def _along_links(
    row: Algorithm, size: int, axes: tuple[int, ...]
) -> Iterator[Algorithm]:
    """Pipelines along the links of a grid of as many dimensions."""
    for dims in grids_of_links(row, size, axes):
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
        grids = grids_of_links(row, size, axes) or nested or [()]
    for dims in grids:  # empty selects the algorithm's own default
        own = {"dims": dims} if dims else {}
        yield from _overlapping(row, size, own)


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
    """The algorithms without duplicates, that is, with the same schedule as another."""
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
