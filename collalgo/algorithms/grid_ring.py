"""Hierarchical rings: one rank of each host speaks for it on a ring of the hosts.

>>> from collalgo import verify
>>> print(verify("ring_2d", size=16, collective="allreduce"))
allreduce of 16 ranks: 14 steps, 9/2 n bytes, 36 links, same bits on every rank
"""

from collections.abc import Sequence
from math import prod

from collalgo.algorithms import linear, ring
from collalgo.algorithms.radix import square
from collalgo.schedule import Group, Steps, pad, recv, send


def rings(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Reduce the lines of the first dimensions to one rank each; a ring joins these."""
    *inner, outer = lines_of_leaders(group, dims or square(group.size, axes))
    for line, dim in inner:
        yield from pad(dim, reduce_along(line) if line else None)
    line, dim = outer
    yield from pad(2 * dim - 2, ring.allreduce(line) if line else None)
    for line, dim in reversed(inner):
        yield from pad(dim, broadcast_along(line) if line else None)


def lines_of_leaders(
    group: Group, dims: Sequence[int]
) -> list[tuple[Group | None, int]]:
    """The line of each dimension through this rank, if it leads those before; its size.

    Dimensions of a single rank have no line, unless there is no other.
    """
    numbers = [i for i in range(len(dims)) if dims[i] > 1] or [0]
    return [
        (
            None if group.rank % prod(dims[:number]) else group.axis(dims, number),
            dims[number],
        )
        for number in numbers
    ]


def reduce_along(line: Group) -> Steps:
    """Reduce-scatter around a ring; the first rank gathers what the others have."""
    yield from ring.reduce_scatter(line)
    yield from linear.gather(line)


def broadcast_along(line: Group) -> Steps:
    """The first rank scatters; the others allgather around a ring that begins there."""
    yield from linear.scatter(line)
    for step in range(line.size - 1):
        passed_on = send(line.right, line.chunk(line.rank - step))
        taken = recv(line.left, line.chunk(line.rank - step - 1))
        if line.rank == 0:
            yield passed_on
        elif line.rank == line.size - 1:
            yield taken
        else:
            yield passed_on, taken
