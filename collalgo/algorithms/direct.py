"""Direct: every rank talks to every other at once, as on a full mesh or a switch.

>>> from collalgo import verify
>>> print(verify("one_shot", size=8, collective="allreduce"))
allreduce of 8 ranks: 1 step, 7 n bytes, 56 links, same bits on every rank
>>> print(verify("two_shot", size=8, collective="allreduce"))
allreduce of 8 ranks: 2 steps, 7/4 n bytes, 56 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, recv, recv_reduce, send


def others(group: Group) -> range:
    """All other positions, from my right neighbour on, so that the load spreads."""
    return range(group.rank + 1, group.rank + group.size)


def reduce_scatter(group: Group) -> Steps:
    """Each rank receives its chunk from all others, and sums them in one step."""
    yield (
        *(send(group.peer(i), group.chunk(i)) for i in others(group)),
        *(recv_reduce(group.peer(i), group.chunk(group.rank)) for i in others(group)),
    )


def allgather(group: Group) -> Steps:
    """Each rank sends its chunk to all others."""
    yield (
        *(send(group.peer(i), group.chunk(group.rank)) for i in others(group)),
        *(recv(group.peer(i), group.chunk(i)) for i in others(group)),
    )


def one_shot(group: Group) -> Steps:
    """Each rank sends its whole vector to all others, and sums them all."""
    yield (
        *(send(group.peer(i), group.whole) for i in others(group)),
        *(recv_reduce(group.peer(i), group.whole) for i in others(group)),
    )


def two_shot(group: Group) -> Steps:
    """Each rank sums one chunk of all vectors, then sends it to all others."""
    yield from reduce_scatter(group)
    yield from allgather(group)
