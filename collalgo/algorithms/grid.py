"""Grids of ranks: rings, tori and meshes of two, three or any number of dimensions.

Ranks run along the first dimension first, as GPUs inside hosts inside racks do.

>>> from collalgo import verify
>>> print(verify("torus_2d", size=16, collective="allreduce"))
allreduce of 16 ranks: 12 steps, 15/8 n bytes, 32 links, same bits on every rank
>>> print(verify("mesh_2d", size=16, collective="allreduce"))
allreduce of 16 ranks: 12 steps, 3 n bytes, 32 links, same bits on every rank
"""

from collections.abc import Sequence
from itertools import accumulate

from collalgo.algorithms import direct, ring
from collalgo.algorithms.radix import primes, square
from collalgo.schedule import Group, ScheduleFunction, Steps


def torus(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Reduce-scatter along each dimension in turn, then allgather in reverse order."""
    yield from there_and_back(beside(group.lines(dims or square(group.size, axes))))


def reduce_scatter(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Reduce-scatter along each dimension in turn the chunks of the ranks beyond."""
    lines = group.lines(dims or square(group.size, axes), owned=True)
    yield from there(beside(lines))


def allgather(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Allgather along each dimension, the last one first, all chunks so far."""
    lines = group.lines(dims or square(group.size, axes), owned=True)
    yield from back(beside(lines))


def beside(lines: Sequence[Group]) -> list[Group]:
    """Adjacent lines of an outer dimension, in opposite directions.

    They may share links: on a ring of hosts, half of them use each direction.
    """
    inner = accumulate((line.rank for line in lines), initial=0)
    return [*map(ring.opposed, lines, inner)]


def there(
    lines: Sequence[Group], along: ScheduleFunction = ring.reduce_scatter
) -> Steps:
    """Reduce-scatter along each line, by default by a ring, the chunk of the last."""
    for line in lines:
        yield from along(line)


def back(lines: Sequence[Group], along: ScheduleFunction = ring.allgather) -> Steps:
    """Allgather along each line, the last one first, by default by a ring."""
    for line in reversed(lines):
        yield from along(line)


def there_and_back(lines: Sequence[Group]) -> Steps:
    """Reduce-scatter along all lines by rings, then allgather back."""
    yield from there(lines)
    yield from back(lines)


def blueconnect(group: Group, dims: Sequence[int] = ()) -> Steps:
    """The torus of as many dimensions as the number of ranks has factors (Cho 2019)."""
    yield from torus(group, dims or primes(group.size) or [1])


def bcube(group: Group, dims: Sequence[int] = ()) -> Steps:
    """As BlueConnect, but directly between all ranks of each dimension."""
    lines = group.lines(dims or primes(group.size) or [1])
    yield from there(lines, direct.reduce_scatter)
    yield from back(lines, direct.allgather)


def bcube_reduce_scatter(group: Group, dims: Sequence[int] = ()) -> Steps:
    """Direct exchange in each dimension of the chunks of the ranks beyond."""
    lines = group.lines(dims or primes(group.size) or [1], owned=True)
    yield from there(lines, direct.reduce_scatter)


def bcube_allgather(group: Group, dims: Sequence[int] = ()) -> Steps:
    """Direct exchange in each dimension, the last one first, of all chunks so far."""
    lines = group.lines(dims or primes(group.size) or [1], owned=True)
    yield from back(lines, direct.allgather)


def mesh(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Allreduce the whole buffer along each dimension in turn."""
    dims = dims or square(group.size, axes)
    for number in range(len(dims)):
        yield from ring.allreduce(group.axis(dims, number))
