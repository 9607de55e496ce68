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
    doublings,
    pad,
    reverse,
)


def rings(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """Reduce the lines of the first dimensions to one rank each; a ring joins these."""
    dims = dims or square(group.size, axes)
    *inner, outer = [
        group.axis(dims, number) if group.rank % prod(dims[:number]) == 0 else None
        for number in range(len(dims))
    ]
    inwards: list[Step] = []
    for line, dim in zip(inner, dims, strict=False):
        steps = k_nomial.reduce(line) if line else None
        inwards += map(as_step, pad(len(doublings(dim)), steps))
    yield from inwards
    yield from pad(2 * dims[-1] - 2, ring.allreduce(outer) if outer else None)
    yield from reverse(iter(inwards), combine=False)
