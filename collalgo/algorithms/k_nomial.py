"""Binomial and k-nomial trees: with each round k times as many ranks are involved.

>>> from collalgo import verify
>>> print(verify("binomial", size=8, collective="broadcast"))
broadcast of 8 ranks: 3 steps, 3 n bytes, 7 links, same bits on every rank
>>> print(verify("k_nomial", size=16, collective="broadcast"))
broadcast of 16 ranks: 2 steps, 6 n bytes, 15 links, same bits on every rank
"""

from collalgo.algorithms import tree
from collalgo.algorithms.radix import powers
from collalgo.schedule import Chunks, Group, Steps, recv, reverse, send


def shape(group: Group, radix: int) -> list[tree.Round]:
    """The children of each round, k times nearer each; the parent and its round."""
    rounds: list[tree.Round] = []
    for distance in reversed(powers(group.size, radix)):
        place = group.rank % (radix * distance)
        if place == 0:
            end = min(group.rank + radix * distance, group.size)
            rounds.append((None, range(group.rank + distance, end, distance)))
        elif place % distance == 0:
            rounds.append((group.rank - place, ()))
        else:
            rounds.append(tree.IDLE)
    return rounds


def subtree(group: Group, position: int, radix: int) -> Chunks:
    """The chunks of a position and its descendants."""
    below = [d for d in powers(group.size, radix) if position % (radix * d) == 0]
    count = radix * below[-1] if below else 1
    return group.chunks(position, min(position + count, group.size))


def broadcast(group: Group, radix: int = 2) -> Steps:
    """Each rank with the data sends it on, over a k-th of the distance per round."""
    yield from tree.broadcast(group, shape(group, radix))


def reduce(group: Group, radix: int = 2) -> Steps:
    """Each rank sums its subtree, and sends the sum to its parent."""
    yield from tree.reduce(group, shape(group, radix))


def scatter(group: Group, radix: int = 2) -> Steps:
    """Each rank with the chunks of a range sends on those of its upper parts."""
    for parent, children in shape(group, radix):
        if parent is not None:
            yield recv(group.peer(parent), subtree(group, group.rank, radix))
        else:
            yield tuple(send(group.peer(i), subtree(group, i, radix)) for i in children)


def gather(group: Group, radix: int = 2) -> Steps:
    """The reversed scatter."""
    yield from reverse(scatter(group, radix), combine=False)


def allreduce(group: Group, radix: int = 2) -> Steps:
    """Reduce to the root of a tree, then broadcast from it."""
    yield from reduce(group, radix)
    yield from broadcast(group, radix)


def reduce_scatter(group: Group, radix: int = 2) -> Steps:
    """Reduce to the root of a tree, then scatter."""
    yield from reduce(group, radix)
    yield from scatter(group, radix)


def barrier(group: Group, radix: int = 2) -> Steps:
    """An allreduce of tokens."""
    yield from allreduce(group.tokens, radix)
