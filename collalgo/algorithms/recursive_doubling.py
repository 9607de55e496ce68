"""Recursive doubling: whole vectors over doubling distances (Thakur et al. 2005).

>>> from collalgo import verify
>>> print(verify("recursive_doubling", size=8, collective="allreduce"))
allreduce of 8 ranks: 3 steps, 3 n bytes, 24 links, same bits on every rank
"""

from collalgo.algorithms.fold import fold, whole
from collalgo.schedule import Group, Steps, doublings, recv_reduce, send


@fold(whole)
def allreduce(group: Group) -> Steps:
    """After each swap a vector holds the sum of twice as many ranks."""
    for distance in doublings(group.size):
        peer = group.peer(group.rank ^ distance)
        yield send(peer, group.whole), recv_reduce(peer, group.whole)
