"""Bine: binomial trees and butterflies over shorter distances (De Sensi et al. 2025).

Distances are written to the base -2, so that a tree reaches out to both sides.

>>> from collalgo import verify
>>> print(verify("bine", size=8, collective="broadcast"))
broadcast of 8 ranks: 3 steps, 3 n bytes, 7 links, same bits on every rank
>>> print(verify("bine", size=8, collective="allreduce"))
allreduce of 8 ranks: 6 steps, 7/4 n bytes, 24 links, same bits on every rank
"""

from functools import cache

from collalgo.algorithms import k_nomial
from collalgo.algorithms.fold import fold, nothing, own_chunk, whole
from collalgo.algorithms.swing import reached
from collalgo.schedule import Group, Steps, doublings, recv_reduce, reverse, send


def digits(position: int, size: int) -> int:
    """The digits to base -2, as bits, of the position or of an equivalent one.

    >>> [digits(position, 8) for position in range(8)]
    [0, 1, 6, 7, 4, 5, 2, 3]
    """
    mask = sum(2 << i for i in range(0, 2 * size.bit_length(), 2))
    return ((position + mask) ^ mask) & (size - 1)


@cache
def tree_order(size: int) -> list[int]:
    """The order of positions in which a binomial tree is the Bine tree."""

    def label(position: int) -> int:
        bits = digits(position, size)
        return bits ^ (bits >> 1)

    return sorted(range(size), key=label)


@cache
def butterfly_order(size: int, start: int = 0, step: int = 0) -> list[int]:
    """The order of positions in which a rank keeps one run of chunks in each step."""
    if 1 << step == size:
        return [start]
    return [
        *butterfly_order(size, start, step + 1),
        *butterfly_order(size, reached(start, step) % size, step + 1),
    ]


def halve(group: Group, view: Group) -> Steps:
    """Exchange halves of the remaining chunks with ever farther peers."""
    span = group.size
    for step in range(len(doublings(group.size))):
        span //= 2
        keep = view.rank - view.rank % span
        give = keep ^ span
        peer = group.peer(reached(group.rank, step))
        yield (
            send(peer, view.chunks(give, give + span)),
            recv_reduce(peer, view.chunks(keep, keep + span)),
        )


def ordered(group: Group) -> Group:
    """The group in the order in which chunks are halved."""
    return group.reordered(butterfly_order(group.size))


@fold(nothing, whole)
def broadcast(group: Group) -> Steps:
    """Each rank with the data sends it on, alternating between both directions."""
    yield from k_nomial.broadcast(group.reordered(tree_order(group.size)))


@fold(whole, nothing)
def reduce(group: Group) -> Steps:
    """The reversed broadcast."""
    yield from k_nomial.reduce(group.reordered(tree_order(group.size)))


@fold(whole, whole)
def allreduce(group: Group) -> Steps:
    """Reduce-scatter by halving, then allgather by doubling."""
    (view,) = ordered(group).shares(1)
    yield from halve(group, view)
    yield from reverse(halve(group, view), combine=False)


@fold(whole, own_chunk)
def reduce_scatter(group: Group) -> Steps:
    """Halve the data down to my own chunk, summed."""
    yield from halve(group, ordered(group))


@fold(own_chunk, whole)
def allgather(group: Group) -> Steps:
    """The reversed reduce-scatter."""
    yield from reverse(halve(group, ordered(group)), combine=False)
