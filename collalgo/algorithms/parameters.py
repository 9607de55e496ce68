"""The parameters of algorithms: the range of each, declared once.

A value is checked where it is named, before any rank moves a byte; what depends on the
number of ranks, as the product of the dimensions of a grid, when that is known.
"""

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any, NamedTuple

from collalgo.schedule import LANES

#: Pieces of the data that a pipeline, or an algorithm in blocks, has at most.
PIECES = 4096

#: The largest value of a parameter that is bounded by the number of ranks.
MANY = 1 << 20

#: Dimensions of a grid at most.
AXES = 16


class Range(NamedTuple):
    """The values that a parameter can have.

    Attributes
    ----------
    words : str
        The allowed values, in words.
    checked : callable
        Returns the normalised value; raises TypeError or ValueError for others.
    obstacle : callable
        Returns the reason why a value cannot be used with a number of ranks, or None.
    """

    words: str
    checked: Callable[[Any], Any]
    obstacle: Callable[[Any, int], str | None]


def suits(_: object, __: int) -> None:
    """No number of ranks is an obstacle."""


def whole(value: object, least: int, most: int) -> int:
    """An integer of a range."""
    if isinstance(value, bool):
        raise TypeError
    number: int = index(value)  # type: ignore[arg-type]
    if not least <= number <= most:
        raise ValueError
    return number


def number(least: int, most: int, *, optional: bool = False) -> Range:
    """Integers of a range; with ``optional`` also None, for the algorithm's default."""

    def checked(value: object) -> int | None:
        return None if optional and value is None else whole(value, least, most)

    also = ", or None" if optional else ""
    return Range(f"a whole number from {least} to {most}{also}", checked, suits)


def wholes(value: Any, least: int, most: int = MANY) -> tuple[int, ...]:
    """Integers, at most as many as there can be ranks."""
    return tuple(whole(item, least, most) for item in limited_list(value, MANY))


def hosts(value: Any) -> tuple[int, ...]:
    """The ranks of each host."""
    return wholes(value, 1)


def dimensions(value: Any) -> tuple[int, ...]:
    """The dimensions of a grid."""
    found = wholes(value, 1)
    if len(found) > AXES:
        raise ValueError
    return found


def not_a_grid(dims: Sequence[int], size: int) -> str | None:
    """The reason why dimensions are not a grid of all ranks, or None."""
    if not dims or prod(dims) == size:
        return None
    shape = " x ".join(map(str, dims))
    return (
        f"a grid of {shape} has {prod(dims)} places but there are {size} ranks; choose "
        "dimensions whose product is the number of ranks"
    )


def not_all_hosts(hosts: Sequence[int], size: int) -> str | None:
    """The reason why hosts do not hold all ranks, or None."""
    if not hosts or sum(hosts) == size:
        return None
    return (
        f"hosts of {shortened(hosts)} ranks make {sum(hosts)} ranks but there are "
        f"{size}; give every host its ranks"
    )


def a_rank(value: Any) -> int | None:
    """The position of a rank; None for the algorithm's default."""
    return None if value is None else whole(value, 0, MANY)


def not_a_rank(rank: int | None, size: int) -> str | None:
    """The reason why a position is not that of one of the ranks, or None."""
    if rank is None or rank < size:
        return None
    return f"position {rank} is not below the number of ranks, {size}"


def an_order(value: Any) -> tuple[int, ...] | None:
    """An order of ranks; None for the natural order."""
    return None if value is None else wholes(value, 0)


def not_an_order(order: Sequence[int] | None, size: int) -> str | None:
    """The reason why an order is not a permutation of all ranks, or None."""
    if order is None or sorted(order) == list(range(size)):
        return None
    return f"order {shortened(order)} must name each of the {size} ranks once"


def shortened(values: Sequence[int]) -> str:
    """The first few of many numbers."""
    shown = ", ".join(map(str, values[:8]))
    return f"({shown}, ...)" if len(values) > 8 else f"({shown})"


def cycles(value: Any) -> tuple[tuple[int, ...], ...]:
    """Orders of the ranks of a host."""
    found = tuple(wholes(cycle, 0) for cycle in limited_list(value))
    for cycle in found:
        if not cycle or sorted(cycle) != list(range(len(cycle))):
            raise ValueError
    return found


def not_cycles(cycles: Sequence[Sequence[int]], size: int) -> str | None:
    """The reason why cycles do not match the ranks of the hosts, or None."""
    for cycle in cycles:
        if size % len(cycle):
            return (
                f"a cycle has {len(cycle)} ranks, which do not divide {size}; give "
                "cycles of the ranks of one host"
            )
    return None


def trees(value: Any) -> tuple[tuple[int, ...], ...]:
    """The parents of all ranks in each tree."""
    return tuple(wholes(parents, -1) for parents in limited_list(value))


def not_trees(trees: Sequence[Sequence[int]], size: int) -> str | None:
    """The reason why trees do not match the ranks, or None."""
    for parents in trees:
        if len(parents) != size or parents.count(-1) != 1:
            return (
                f"a tree gives {len(parents)} ranks a parent and has "
                f"{parents.count(-1)} roots; need {size} ranks and one root (-1)"
            )
        if max(parents) >= size:
            return f"parent {max(parents)} of a tree: all must be ranks below {size}"
        if not lead_to_root(parents):
            return f"some ranks have no path to the root of {shortened(parents)}"
    return None


def lead_to_root(parents: Sequence[int]) -> bool:
    """Whether every rank is below the root, so that there is no cycle."""
    below: list[list[int]] = [[] for _ in parents]
    for rank, parent in enumerate(parents):
        if parent >= 0:
            below[parent].append(rank)
    found = [parents.index(-1)]
    for rank in found:
        found += below[rank]
    return len(found) == len(parents)


def weights(value: Any) -> tuple[int, ...]:
    """The shares of trees."""
    found = wholes(value, 1, PIECES)
    if sum(found) > PIECES:
        raise ValueError
    return found


def pairs(value: Any) -> Any:
    """Blocks of an alltoall; a frozenset is made by the library, and is not checked."""
    if isinstance(value, frozenset):
        return value
    found = tuple(wholes(pair, 0) for pair in limited_list(value, MANY))
    if any(len(pair) != 2 for pair in found):
        raise ValueError
    return found


def limited_list(value: Any, most: int = PIECES) -> Any:
    """A sequence that is not too long."""
    if isinstance(value, str | bytes) or len(value) > most:
        raise TypeError
    return value


#: Parameters that every algorithm has, whatever its own.
COMMON = {
    "segments": number(1, PIECES),
    "lanes": number(1, LANES),
    "order": Range("each rank once", an_order, not_an_order),
}

#: Those of the algorithms of the library; a row has those that its function takes.
OWN = {
    "radix": number(2, MANY),
    "blocks": number(1, PIECES),
    "axes": number(1, AXES),
    "chains": number(1, MANY),
    "rings": number(1, PIECES),
    "leaders": number(1, MANY),
    "late": Range("the position of a rank, or None", a_rank, not_a_rank),
    "batch": number(1, MANY, optional=True),
    "aggregation": number(1, MANY, optional=True),
    "dims": Range(
        f"up to {AXES} whole numbers whose product is the number of ranks",
        dimensions,
        not_a_grid,
    ),
    "hosts": Range(
        "whole numbers from 1 whose sum is the number of ranks", hosts, not_all_hosts
    ),
    "cycles": Range(
        "orders of the ranks of a host, each of 0, 1, ...", cycles, not_cycles
    ),
    "trees": Range(
        "trees, each the parent of every rank and -1 for the root", trees, not_trees
    ),
    "weights": Range(
        f"a whole number from 1 for each tree, together up to {PIECES}", weights, suits
    ),
    "large": Range("pairs of ranks, source and target", pairs, suits),
}
