"""Halving-doubling: half of what is left with each peer (Rabenseifner 2004).

>>> from collalgo import verify
>>> print(verify("halving_doubling", size=8, collective="allreduce"))
allreduce of 8 ranks: 6 steps, 7/4 n bytes, 24 links, same bits on every rank
>>> print(verify("halving_doubling", size=12, collective="allreduce"))
allreduce of 12 ranks: 8 steps, 15/4 n bytes, 32 links, same bits on every rank
"""

from collalgo.algorithms.fold import fold, own_chunk, whole
from collalgo.schedule import Group, Steps, doublings, recv, recv_reduce, send


def halve(group: Group) -> Steps:
    """Swap halves with ever nearer peers until my own chunk is left, summed."""
    for distance in reversed(doublings(group.size)):
        keep = group.rank - group.rank % distance
        give = keep ^ distance
        peer = group.peer(group.rank ^ distance)
        yield (
            send(peer, group.chunks(give, give + distance)),
            recv_reduce(peer, group.chunks(keep, keep + distance)),
        )


def allgather(group: Group) -> Steps:
    """Swap all that I know with ever farther peers until I know every chunk."""
    for distance in doublings(group.size):
        mine = group.rank - group.rank % distance
        theirs = mine ^ distance
        peer = group.peer(group.rank ^ distance)
        yield (
            send(peer, group.chunks(mine, mine + distance)),
            recv(peer, group.chunks(theirs, theirs + distance)),
        )


@fold(own_chunk)
def reduce_scatter(group: Group) -> Steps:
    """Recursive halving, for any number of ranks."""
    yield from halve(group)


@fold(whole)
def allreduce(group: Group) -> Steps:
    """Halve the data down to one summed chunk each, then double it back up."""
    yield from halve(group)
    yield from allgather(group)
