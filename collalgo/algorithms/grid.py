"""Grids of ranks: rings, tori and meshes of two, three or any number of dimensions.

Ranks run along the first dimension first, as GPUs inside hosts inside racks do.

>>> from collalgo import verify
>>> print(verify("torus_2d", size=16, collective="allreduce"))
allreduce of 16 ranks: 12 steps, 15/8 n bytes, 32 links, same bits on every rank
>>> print(verify("torus_2d_all_ways", size=16, collective="allreduce"))
allreduce of 16 ranks: 12 steps, 15/8 n bytes, 64 links, same bits on every rank
>>> print(verify("mesh_2d", size=16, collective="allreduce"))
allreduce of 16 ranks: 12 steps, 3 n bytes, 32 links, same bits on every rank
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, product
from math import prod

from collalgo.algorithms import direct, ring
from collalgo.algorithms.radix import primes, square
from collalgo.schedule import Group, ScheduleFunction, Steps, together


def torus(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Reduce-scatter along each dimension of what is left, then allgather back."""
    yield from there_and_back(beside(group.lines(dims or square(group.size, axes))))


def reduce_scatter(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Reduce-scatter along each dimension, for all ranks beyond, what is left."""
    lines = group.lines(dims or square(group.size, axes), owned=True)
    yield from there(beside(lines))


def allgather(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Allgather along each dimension, the last one first, all that is there so far."""
    lines = group.lines(dims or square(group.size, axes), owned=True)
    yield from back(beside(lines))


def beside(lines: Sequence[Group]) -> list[Group]:
    """Lines of an outer dimension run against those beside them.

    These may share links: on a ring of hosts half of them go each way.
    """
    inner = accumulate((line.rank for line in lines), initial=0)
    return [*map(ring.opposed, lines, inner)]


def there(
    lines: Sequence[Group], along: ScheduleFunction = ring.reduce_scatter
) -> Steps:
    """Along each line, by default by a ring, sum what the one before has left."""
    for line in lines:
        yield from along(line)


def back(lines: Sequence[Group], along: ScheduleFunction = ring.allgather) -> Steps:
    """Along each line, the last one first, spread what is known so far."""
    for line in reversed(lines):
        yield from along(line)


def there_and_back(lines: Sequence[Group]) -> Steps:
    """Rings along lines sum everything, then spread it."""
    yield from there(lines)
    yield from back(lines)


def blueconnect(group: Group, dims: Sequence[int] = ()) -> Steps:
    """The torus of as many dimensions as the number of ranks has factors (Cho 2019)."""
    yield from torus(group, dims or primes(group.size) or [1])


def bcube(group: Group, dims: Sequence[int] = ()) -> Steps:
    """As BlueConnect, but in each dimension all ranks talk to all at once."""
    lines = group.lines(dims or primes(group.size) or [1])
    yield from there(lines, direct.reduce_scatter)
    yield from back(lines, direct.allgather)


def bcube_reduce_scatter(group: Group, dims: Sequence[int] = ()) -> Steps:
    """In each dimension all ranks swap at once what those beyond them need."""
    lines = group.lines(dims or primes(group.size) or [1], owned=True)
    yield from there(lines, direct.reduce_scatter)


def bcube_allgather(group: Group, dims: Sequence[int] = ()) -> Steps:
    """In each dimension, the last one first, all ranks swap all they have at once."""
    lines = group.lines(dims or primes(group.size) or [1], owned=True)
    yield from back(lines, direct.allgather)


def mesh(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Allreduce everything along each dimension in turn."""
    dims = dims or square(group.size, axes)
    for number in range(len(dims)):
        yield from ring.allreduce(group.axis(dims, number))


def all_axes(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """As many tori as dimensions, each with a part of the data and another axis first.

    So the links of all dimensions are busy all the time (Ying et al. 2018).
    """
    yield from tori(group, dims or square(group.size, axes), 1, there_and_back)


def all_ways(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Tori along all axes, one half of the data against the other on each.

    So the links of a torus are busy all the time, in both directions.
    """
    yield from tori(group, dims or square(group.size, axes), 2, there_and_back)


def all_ways_reduce_scatter(
    group: Group, dims: Sequence[int] = (), axes: int = 2
) -> Steps:
    """Reduce-scatter along all axes at once, one half against the other on each."""
    yield from tori(group, dims or square(group.size, axes), 2, there, owned=True)


def all_ways_allgather(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Allgather along all axes at once, one half against the other on each."""
    yield from tori(group, dims or square(group.size, axes), 2, back, owned=True)


def tori(
    group: Group,
    dims: Sequence[int],
    ways: int,
    walk: Callable[[Sequence[Group]], Steps],
    owned: bool = False,
) -> Steps:
    """A torus for each axis that may come first and each way round it, side by side."""
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
    """The places of a grid, along dimension ``first`` first.

    >>> turned_order((2, 3), 1)
    (0, 2, 4, 1, 3, 5)
    """
    strides = [prod(dims[:i]) for i in range(len(dims))]
    axes = [*range(first, len(dims)), *range(first)]
    return tuple(
        sum(i * strides[axis] for i, axis in zip(place, reversed(axes), strict=True))
        for place in product(*(range(dims[axis]) for axis in reversed(axes)))
    )
