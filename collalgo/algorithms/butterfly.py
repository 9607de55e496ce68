"""Butterfly: halves over growing distances, so that the order stays (Traeff 2005).

Only neighbours in the order of the ranks are ever combined, as an op needs that does
not commute. Chunk i ends at the rank whose number is i with its bits mirrored.

>>> from collalgo import verify
>>> proof = verify("butterfly", size=8, collective="allreduce")
>>> print(proof, proof.order, sep=", order of the ")
allreduce of 8 ranks: 6 steps, 7/4 n bytes, 24 links, same bits on every rank, order \
of the ranks
"""

from collalgo.algorithms.fold import fold, own_chunk, whole
from collalgo.schedule import (
    Group,
    Steps,
    doublings,
    recv,
    recv_reduce,
    reverse,
    send,
)


def halve(group: Group) -> Steps:
    """Exchange halves of the remaining chunks with ever farther peers."""
    start, stop = 0, group.size
    for distance in doublings(group.size):
        middle = (start + stop) // 2
        keep, give = (start, middle), (middle, stop)
        if group.rank & distance:
            keep, give = give, keep
        peer = group.peer(group.rank ^ distance)
        yield send(peer, group.chunks(*give)), recv_reduce(peer, group.chunks(*keep))
        start, stop = keep


def mirrored(rank: int, size: int) -> int:
    """The number of a rank with its bits in the opposite order."""
    bits = size.bit_length() - 1
    return sum((rank >> bit & 1) << (bits - 1 - bit) for bit in range(bits))


@fold(whole, own_chunk)
def reduce_scatter(group: Group) -> Steps:
    """Halve the data down to one summed chunk, then send it to its owner."""
    yield from halve(group)
    other = mirrored(group.rank, group.size)
    if other != group.rank:
        peer = group.peer(other)
        yield send(peer, group.chunk(other)), recv(peer, group.chunk(group.rank))


@fold(whole, whole)
def allreduce(group: Group) -> Steps:
    """Reduce-scatter by halving, then allgather by doubling."""
    yield from halve(group)
    yield from reverse(halve(group), combine=False)
