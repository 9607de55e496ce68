"""Trivance: the two peers at each distance 1, 3, 9, ... at once (Juerss 2026).

The variant for long vectors: the fewest steps of two ports, and the fewest bytes.
For any number n of ranks, without a fold: what a rank would learn twice is not sent.

>>> from collalgo import verify
>>> print(verify("trivance", size=9, collective="allreduce"))
allreduce of 9 ranks: 4 steps, 16/9 n bytes, 36 links, same bits on every rank
>>> print(verify("trivance", size=16, collective="allgather"))
allgather of 16 ranks: 3 steps, 15/16 n bytes, 96 links, same bits on every rank
"""

from functools import cache

from collalgo.algorithms.radix import powers
from collalgo.schedule import Group, Step, Steps, recv, reverse, send, together


@cache
def exchanges(size: int) -> list[tuple[int, set[int], set[int]]]:
    """The distances from far to near, and the chunks for both peers there.

    Chunks are given by their distance from the sender: those for the peer on the right,
    and those for the one on the left.

    >>> [(far, sorted(right), sorted(left)) for far, right, left in exchanges(9)]
    [(3, [0], [0]), (1, [-3, 0, 3], [-3, 0, 3])]
    """
    known, steps = {0: 0}, []
    for distance in reversed(powers(size, 3)):
        before = set(known.values())
        right, left = (
            _given(before, known, way, size) for way in (distance, -distance)
        )
        steps.append((distance, right, left))
    return steps


def _given(before: set[int], known: dict[int, int], way: int, size: int) -> set[int]:
    """The chunks that a peer lacks, which are known from then on."""
    given = {i for i in before if (i + way) % size not in known}
    known.update({(i + way) % size: i + way for i in given})
    return {-i for i in given}


def swap(group: Group, distance: int, right: set[int], left: set[int]) -> Step:
    """Send chunks to both peers at a distance, and receive theirs."""
    me, step = group.rank, []
    for way, given in ((distance, right), (-distance, left)):
        if given:
            mine = [me + i for i in sorted(given)]
            step += [
                send(group.peer(me + way), group.chunks_of(mine)),
                recv(group.peer(me - way), group.chunks_of(i - way for i in mine)),
            ]
    return tuple(step)


def allgather(group: Group) -> Steps:
    """Swap missing chunks with the two peers at ever smaller distances.

    Chunks for both are in one message each, so that they are combined at once when that
    is reversed; those for one of them, if the size is not a power of three, in another.
    """
    steps = exchanges(group.size)
    yield from together(
        (swap(group, far, right & left, right & left) for far, right, left in steps),
        (swap(group, far, right - left, left - right) for far, right, left in steps),
    )


def reduce_scatter(group: Group) -> Steps:
    """The reversed allgather: a rank combines the data of both peers at once."""
    yield from reverse(allgather(group))


def allreduce(group: Group) -> Steps:
    """Reduce-scatter, then allgather."""
    yield from reduce_scatter(group)
    yield from allgather(group)
