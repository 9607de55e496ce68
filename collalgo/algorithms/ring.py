"""Ring: every rank talks to two neighbours only (Patarasuk and Yuan 2009).

>>> from collalgo import verify
>>> print(verify("ring", size=8, collective="allreduce"))
allreduce of 8 ranks: 14 steps, 7/4 n bytes, 8 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, recv, recv_reduce, send


def reduce_scatter(group: Group) -> Steps:
    """Each chunk travels once around the ring, gaining a contribution at every stop."""
    for step in range(1, group.size):
        yield (
            send(group.right, group.chunk(group.rank - step)),
            recv_reduce(group.left, group.chunk(group.rank - step - 1)),
        )


def allgather(group: Group) -> Steps:
    """Each chunk travels once around the ring, and a copy stays at every stop."""
    for step in range(group.size - 1):
        yield (
            send(group.right, group.chunk(group.rank - step)),
            recv(group.left, group.chunk(group.rank - step - 1)),
        )


def allreduce(group: Group) -> Steps:
    """Each chunk travels around the ring twice: to be summed, then to be known."""
    yield from reduce_scatter(group)
    yield from allgather(group)
