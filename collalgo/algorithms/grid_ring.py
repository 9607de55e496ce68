"""Hierarchical rings: one rank of each host speaks for it on a ring of the hosts.

>>> from collalgo import verify
>>> print(verify("ring_2d", size=16, collective="allreduce"))
allreduce of 16 ranks: 10 steps, 11/2 n bytes, 28 links, same bits on every rank
"""

from collections.abc import Sequence
from math import prod

from collalgo.algorithms import k_nomial, ring
from collalgo.algorithms.radix import square
from collalgo.schedule import (
    Group,
    Step,
    Steps,
    as_step,
    backwards,
    doublings,
    lasting,
)


def rings(group: Group, dims: Sequence[int] = ()) -> Steps:
    """Sum each line of the first dimensions at one rank; a ring joins the last ones."""
    *inner, outer = dims or square(group.size)
    stride = prod(inner)
    joined = group.subset(range(0, outer * stride, stride))
    inwards: list[Step] = []
    for axis, dim in enumerate(inner):
        line = leaders(group, inner[:axis], dim)
        steps = k_nomial.reduce(line) if line else None
        inwards += map(as_step, lasting(len(doublings(dim)), steps))
    yield from inwards
    yield from lasting(2 * outer - 2, ring.allreduce(joined) if joined else None)
    yield from backwards(iter(inwards), combine=False)


def leaders(group: Group, below: Sequence[int], dim: int) -> Group | None:
    """My line along a dimension, if I lead the dimensions below it."""
    stride = prod(below)
    if group.rank % stride:
        return None
    first = group.rank - group.rank // stride % dim * stride
    return group.subset(range(first, first + dim * stride, stride))


def rings_3d(group: Group, dims: Sequence[int] = ()) -> Steps:
    """The ring of three levels."""
    yield from rings(group, dims or square(group.size, 3))
