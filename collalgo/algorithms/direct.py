"""Direct: every rank talks to every other at once, as on a full mesh or a switch.

>>> from collalgo import verify
>>> print(verify("one_shot", size=8, collective="allreduce"))
allreduce of 8 ranks: 1 step, 7 n bytes, 56 links, same bits on every rank
>>> print(verify("two_shot", size=8, collective="allreduce"))
allreduce of 8 ranks: 2 steps, 7/4 n bytes, 56 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, recv, recv_reduce, send


def others(group: Group) -> range:
    """Every position but mine, from my right neighbour on, so that load spreads."""
    return range(group.rank + 1, group.rank + group.size)


def reduce_scatter(group: Group) -> Steps:
    """Each rank is sent its chunk by all the others and sums them in one step."""
    yield (
        *(send(group.peer(i), group.chunk(i)) for i in others(group)),
        *(recv_reduce(group.peer(i), group.chunk(group.rank)) for i in others(group)),
    )


def allgather(group: Group) -> Steps:
    """Each rank hands its chunk to all the others."""
    yield (
        *(send(group.peer(i), group.chunk(group.rank)) for i in others(group)),
        *(recv(group.peer(i), group.chunk(i)) for i in others(group)),
    )


def one_shot(group: Group) -> Steps:
    """Each rank hands its whole vector to all the others; each sums them all."""
    yield (
        *(send(group.peer(i), group.whole) for i in others(group)),
        *(recv_reduce(group.peer(i), group.whole) for i in others(group)),
    )


def two_shot(group: Group) -> Steps:
    """Each rank sums one chunk of all the vectors, then hands it to everyone."""
    yield from reduce_scatter(group)
    yield from allgather(group)
