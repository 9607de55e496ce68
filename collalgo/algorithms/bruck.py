"""Bruck: few rounds for any number of ranks (Bruck et al. 1997).

>>> from collalgo import verify
>>> print(verify("bruck", size=12, collective="allgather"))
allgather of 12 ranks: 4 steps, 11/12 n bytes, 48 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, doublings, recv, send


def allgather(group: Group) -> Steps:
    """The run of chunks known from my own on doubles with every message."""
    for distance in doublings(group.size):
        count = min(distance, group.size - distance)
        theirs = group.rank + distance
        yield (
            send(
                group.peer(group.rank - distance),
                group.chunks(group.rank, group.rank + count),
            ),
            recv(group.peer(theirs), group.chunks(theirs, theirs + count)),
        )
