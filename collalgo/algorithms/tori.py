"""Several tori together: each starts with another dimension, or turns the other way.

>>> from collalgo import verify
>>> print(verify("torus_2d_all_ways", size=16, collective="allreduce"))
allreduce of 16 ranks: 12 steps, 15/8 n bytes, 64 links, same bits on every rank
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from collalgo.algorithms import grid, ring
from collalgo.algorithms.radix import square
from collalgo.schedule import Group, Steps, together


def all_axes(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """One torus for each dimension, with a part of the data and another first axis.

    So the links of all dimensions are always busy (Ying et al. 2018).
    """
    yield from tori(group, dims or square(group.size, axes), 1, grid.there_and_back)


def all_ways(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Tori along all axes, in both directions of each.

    So the links of a torus are always busy, in both directions.
    """
    yield from tori(group, dims or square(group.size, axes), 2, grid.there_and_back)


def all_ways_reduce_scatter(
    group: Group, dims: Sequence[int] = (), axes: int = 2
) -> Steps:
    """Reduce-scatter along all axes at once, in both directions of each."""
    yield from tori(group, dims or square(group.size, axes), 2, grid.there, owned=True)


def all_ways_allgather(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Allgather along all axes at once, in both directions of each."""
    yield from tori(group, dims or square(group.size, axes), 2, grid.back, owned=True)


def tori(
    group: Group,
    dims: Sequence[int],
    ways: int,
    walk: Callable[[Sequence[Group]], Steps],
    owned: bool = False,
) -> Steps:
    """Run a torus for each first axis and each direction, together."""
    dims = tuple(dims)
    kinds = [*product(range(len(dims)), range(ways))]
    parts = group.segments(len(kinds)) if owned else group.shares(len(kinds))
    schedules = []
    for part, (first, way) in zip(parts, kinds, strict=True):
        lines = turned(part, dims, first).lines(dims[first:] + dims[:first], owned)
        schedules.append(walk([ring.opposed(line, way) for line in lines]))
    yield from together(*schedules)


def turned(group: Group, dims: tuple[int, ...], first: int) -> Group:
    """The group with its positions running along dimension ``first`` first."""
    order = group.once(("turned", dims, first), lambda: turned_order(dims, first))
    return group.reordered(order)


def turned_order(dims: Sequence[int], first: int) -> tuple[int, ...]:
    """The positions of a grid, along dimension ``first`` first.

    >>> turned_order((2, 3), 1)
    (0, 2, 4, 1, 3, 5)
    """
    strides = [prod(dims[:i]) for i in range(len(dims))]
    axes = [*range(first, len(dims)), *range(first)]
    return tuple(
        sum(i * strides[axis] for i, axis in zip(place, reversed(axes), strict=True))
        for place in product(*(range(dims[axis]) for axis in reversed(axes)))
    )
