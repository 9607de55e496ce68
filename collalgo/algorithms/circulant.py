"""Circulant graphs: as few rounds as can be, without a fold (Traeff 2024).

For any number n of ranks an allreduce takes 2 ceil(log2 n) rounds and 2 (n - 1) / n of
the bytes, both as few as an algorithm has that is not pipelined.

>>> from collalgo import verify
>>> print(verify("circulant", size=12, collective="allreduce"))
allreduce of 12 ranks: 8 steps, 11/6 n bytes, 84 links, same bits on every rank
"""

from functools import cache
from itertools import pairwise

from collalgo.algorithms.forwarding import forward
from collalgo.schedule import Group, Steps, recv, reverse, send


@cache
def skips(size: int) -> tuple[int, ...]:
    """Half of each distance, rounded up, down to 1.

    >>> skips(17)
    (1, 2, 3, 5, 9, 17)
    """
    found = [size]
    while found[-1] > 1:
        found.append((found[-1] + 1) // 2)
    return tuple(found[::-1])


def allgather(group: Group) -> Steps:
    """The run of chunks from my own on about doubles in every step."""
    me = group.rank
    for skip, reach in pairwise(skips(group.size)):
        yield (
            send(group.peer(me - skip), group.chunks(me, me + reach - skip)),
            recv(group.peer(me + skip), group.chunks(me + skip, me + reach)),
        )


def reduce_scatter(group: Group) -> Steps:
    """The reversed allgather: half of the remaining chunks go to a peer per step."""
    yield from reverse(allgather(group))


def allreduce(group: Group) -> Steps:
    """Reduce-scatter, then allgather."""
    yield from reduce_scatter(group)
    yield from allgather(group)


def alltoall(group: Group) -> Steps:
    """A block takes the largest skip within its remaining distance, again and again."""
    distances = skips(group.size)[-2::-1]

    def hops(way: int) -> list[int]:
        taken = []
        for skip in distances:
            taken.append(skip if skip <= way else 0)
            way -= taken[-1]
        return taken

    yield from forward(group, [hops(way) for way in range(group.size)])
