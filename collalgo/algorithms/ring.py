"""Ring: every rank talks to two neighbours only (Patarasuk and Yuan 2009).

>>> from collalgo import verify
>>> print(verify("ring", size=8, collective="allreduce"))
allreduce of 8 ranks: 14 steps, 7/4 n bytes, 8 links, same bits on every rank
>>> print(verify("bidirectional_ring", size=8, collective="allreduce"))
allreduce of 8 ranks: 14 steps, 7/4 n bytes, 16 links, same bits on every rank
"""

from collections.abc import Sequence
from math import gcd

from collalgo.schedule import Group, Steps, recv, recv_reduce, send, together


def reduce_scatter(group: Group) -> Steps:
    """Each chunk travels once around the ring, gaining a contribution at every stop."""
    for step in range(1, group.size):
        yield (
            send(group.right, group.chunk(group.rank - step)),
            recv_reduce(group.left, group.chunk(group.rank - step - 1)),
        )


def allgather(group: Group) -> Steps:
    """Each chunk travels once around the ring, and a copy stays at every stop."""
    for step in range(group.size - 1):
        yield (
            send(group.right, group.chunk(group.rank - step)),
            recv(group.left, group.chunk(group.rank - step - 1)),
        )


def allreduce(group: Group) -> Steps:
    """Each chunk travels around the ring twice: to be summed, then to be copied."""
    yield from reduce_scatter(group)
    yield from allgather(group)


def opposed(group: Group, place: int) -> Group:
    """One of several adjacent rings: every other one runs in reverse."""
    return group.reversed if place % 2 else group


def bidirectional(group: Group) -> Steps:
    """Each half of the data travels around the ring in its own direction."""
    there, back = group.shares(2)
    yield from together(allreduce(there), allreduce(back.reversed))


def disjoint(
    group: Group, rings: int = 4, cycles: Sequence[Sequence[int]] = ()
) -> Steps:
    """Several rings in different orders, so that no two use the same link.

    ``cycles`` are orders of the ranks of a host, one for each ring, in which it passes
    host after host; by default each ring takes strides of its own through all ranks.
    """
    if not cycles:
        strides = [s for s in range(1, group.size) if gcd(s, group.size) == 1][:rings]
        cycles = [[i * s % group.size for i in range(group.size)] for s in strides]
    shares = group.shares(max(len(cycles), 1))
    yield from together(
        *(
            allreduce(share.reordered(along(cycle, group.size)))
            for share, cycle in zip(shares, cycles, strict=False)
        )
    )


def along(cycle: Sequence[int], size: int) -> list[int]:
    """All positions, host after host, each in the order of a cycle.

    >>> along((0, 2, 1), 6)
    [0, 2, 1, 3, 5, 4]
    """
    return [start + i for start in range(0, size, len(cycle)) for i in cycle]


def barrier(group: Group) -> Steps:
    """A token travels around the ring twice: to collect, then to release all ranks."""
    for turn in range(2 * group.size if group.size > 1 else 0):
        if turn % group.size == group.rank:
            yield send(group.right)
        elif (turn + 1) % group.size == group.rank:
            yield recv(group.left)
        else:
            yield ()
