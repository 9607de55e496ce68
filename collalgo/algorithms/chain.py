"""Chains: data passes through the ranks one after the other; in segments, a pipeline.

>>> from collalgo import verify
>>> print(verify("pipeline", size=8, collective="broadcast"))
broadcast of 8 ranks: 14 steps, 7/4 n bytes, 7 links, same bits on every rank
"""

from itertools import pairwise

from collalgo.algorithms import tree
from collalgo.schedule import Group, Steps


def shape(group: Group, chains: int) -> list[tree.Round]:
    """The neighbours in a chain; the root is before the heads of all chains."""
    count = max(min(chains, group.size - 1), 1)
    heads = [1 + i * (group.size - 1) // count for i in range(count + 1)]
    height = max(b - a for a, b in pairwise(heads))
    if group.rank == 0:
        return tree.by_depth(0, height, None, heads[:-1] if height else [])
    head = max(i for i in heads if i <= group.rank)
    before = 0 if group.rank == head else group.rank - 1
    after = [] if group.rank + 1 in heads else [group.rank + 1]
    return tree.by_depth(group.rank - head + 1, height, before, after)


def broadcast(group: Group, chains: int = 1) -> Steps:
    """Each rank passes the data on to the next of its chain."""
    yield from tree.broadcast(group, shape(group, chains))


def allreduce(group: Group, chains: int = 1) -> Steps:
    """The sum travels to the head of the chain, and back to its end.

    Who is at the end sends and receives everything once, all others twice: a place for
    the host whose links are the narrowest.
    """
    yield from reduce(group, chains)
    yield from broadcast(group, chains)


def reduce(group: Group, chains: int = 1) -> Steps:
    """Each rank adds its data to the sum from the end of its chain."""
    yield from tree.reduce(group, shape(group, chains))
