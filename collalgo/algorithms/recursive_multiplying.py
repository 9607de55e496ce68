"""Recursive doubling and multiplying: whole vectors over growing distances.

By two it is recursive doubling (Thakur et al. 2005), by more ranks at once recursive
multiplying (Ruefenacht et al. 2017); other numbers of ranks are a product of several
factors, or fold.

>>> from collalgo import verify
>>> print(verify("recursive_doubling", size=8, collective="allreduce"))
allreduce of 8 ranks: 3 steps, 3 n bytes, 24 links, same bits on every rank
>>> print(verify("recursive_multiplying", size=12, collective="allreduce"))
allreduce of 12 ranks: 2 steps, 5 n bytes, 60 links, same bits on every rank
"""

from collalgo.algorithms.fold import fold, whole
from collalgo.algorithms.radix import factors, smooth
from collalgo.schedule import Group, Steps, recv_reduce, send


@fold(whole, whole, smooth)
def allreduce(group: Group, radix: int = 2) -> Steps:
    """After a swap among k ranks a vector holds the sum of k times as many."""
    distance = 1
    for factor in factors(group.size, radix):
        digit = group.rank // distance % factor
        first = group.rank - digit * distance
        peers = [group.peer(first + i * distance) for i in range(factor) if i != digit]
        yield (
            *(send(peer, group.whole) for peer in peers),
            *(recv_reduce(peer, group.whole) for peer in peers),
        )
        distance *= factor


def barrier(group: Group) -> Steps:
    """An allreduce of nothing by recursive doubling."""
    yield from allreduce(group.tokens)
