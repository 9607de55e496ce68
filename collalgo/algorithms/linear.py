"""Linear: the root talks to each of the others, all at once.

>>> from collalgo import verify
>>> print(verify("linear", size=8, collective="reduce"))
reduce of 8 ranks: 1 step, 7 n bytes, 7 links, same bits on every rank
"""

from collalgo.algorithms import tree
from collalgo.schedule import Group, Steps, recv, recv_reduce, reverse, send


def shape(group: Group) -> list[tree.Round]:
    """The root has all others as children."""
    return [(0, ()) if group.rank else (None, range(1, group.size))]


def broadcast(group: Group) -> Steps:
    """The root sends its vector to all others."""
    yield from tree.broadcast(group, shape(group))


def reduce(group: Group) -> Steps:
    """The root receives and sums the vectors of all others in one step."""
    yield from tree.reduce(group, shape(group))


def scatter(group: Group) -> Steps:
    """The root sends every other rank its chunk."""
    if group.rank:
        yield recv(group.peer(0), group.chunk(group.rank))
    else:
        yield tuple(send(group.peer(i), group.chunk(i)) for i in range(1, group.size))


def gather(group: Group) -> Steps:
    """The reversed scatter."""
    yield from reverse(scatter(group), combine=False)


def allreduce(group: Group) -> Steps:
    """Reduce to one rank, which sends the sum to all others."""
    yield from reduce(group)
    yield from broadcast(group)


def barrier(group: Group) -> Steps:
    """An allreduce of tokens."""
    yield from allreduce(group.tokens)


def scan(group: Group) -> Steps:
    """The running sum goes from rank to rank, and a copy stays."""
    for turn in range(1, group.size):
        if turn == group.rank:
            yield recv_reduce(group.left, group.whole)
        elif turn == group.rank + 1:
            yield send(group.right, group.whole)
        else:
            yield ()
