"""Swing: peers at distances 1, -1, 3, -5, 11, ..., near on a ring (De Sensi 2024).

>>> from collalgo import verify
>>> print(verify("swing", size=8, collective="allreduce"))
allreduce of 8 ranks: 6 steps, 7/4 n bytes, 24 links, same bits on every rank
>>> print(verify("swing", size=12, collective="allreduce"))
allreduce of 12 ranks: 8 steps, 11/6 n bytes, 48 links, same bits on every rank
"""

from functools import cache

from collalgo.algorithms.fold import fold, own_chunk, whole
from collalgo.schedule import (
    Group,
    Steps,
    doublings,
    recv,
    reverse,
    send,
)


def hop(step: int) -> int:
    """The distance to the peer of an even rank in a step; negative for an odd rank.

    >>> [hop(step) for step in range(6)]
    [1, -1, 3, -5, 11, -21]
    """
    return int(1 - (-2) ** (step + 1)) // 3


def reached(rank: int, step: int) -> int:
    """The position of the peer of a rank in a step."""
    return rank - hop(step) if rank % 2 else rank + hop(step)


def even(size: int) -> int:
    """The largest even number of ranks."""
    return max(size - size % 2, 1)


@cache
def exchanges(size: int) -> list[tuple[int, list[int]]]:
    """The hops from far to near, and the chunks that an even rank sends, by distance.

    Only what the other side does not know yet is given, so that nothing counts twice.
    """
    known, steps = {0}, []
    for step in reversed(range(len(doublings(size)))):
        given = sorted(d for d in known if (hop(step) - d) % size not in known)
        known |= {(hop(step) - d) % size for d in given}
        steps.append((hop(step), given))
    return steps


def gather_chunks(group: Group) -> Steps:
    """Exchange missing chunks with ever nearer peers."""
    sign = -1 if group.rank % 2 else 1
    for distance, given in exchanges(group.size):
        if given:
            peer = group.peer(group.rank + sign * distance)
            mine = [group.rank + sign * d for d in given]
            theirs = [group.rank + sign * (distance - d) for d in given]
            yield (
                send(peer, group.chunks_of(mine)),
                recv(peer, group.chunks_of(theirs)),
            )


@fold(own_chunk, whole, even)
def allgather(group: Group) -> Steps:
    """Exchange all known chunks with ever nearer peers until all are known."""
    yield from gather_chunks(group)


@fold(whole, own_chunk, even)
def reduce_scatter(group: Group) -> Steps:
    """The reversed allgather: large messages to near peers, small ones to far peers."""
    yield from reverse(gather_chunks(group))


@fold(whole, whole, even)
def allreduce(group: Group) -> Steps:
    """Reduce-scatter, then allgather."""
    yield from reverse(gather_chunks(group))
    yield from gather_chunks(group)
