"""Sparbit and PAT: binomial trees from every rank at once, the far ranks first.

Sparbit (Loch and Koslovski 2021) sends all chunks of a distance in one message; PAT,
as in NCCL, no more chunks in one than there is room for, in more steps.

>>> from collalgo import verify
>>> print(verify("sparbit", size=12, collective="allgather"))
allgather of 12 ranks: 4 steps, 11/12 n bytes, 48 links, same bits on every rank
>>> print(verify("pat", size=12, collective="allgather"))
allgather of 12 ranks: 7 steps, 11/12 n bytes, 48 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, doublings, recv, reverse, send


def allgather(group: Group, aggregation: int | None = None) -> Steps:
    """In each step, the chunks at multiples of a distance move on by that distance."""
    for distance in reversed(doublings(group.size)):
        known = range(0, group.size - distance, 2 * distance)
        room = aggregation or len(known)
        for first in range(0, len(known), room):
            mine = [group.rank - away for away in known[first : first + room]]
            yield (
                send(group.peer(group.rank + distance), group.chunks_of(mine)),
                recv(
                    group.peer(group.rank - distance),
                    group.chunks_of(i - distance for i in mine),
                ),
            )


def reduce_scatter(group: Group, aggregation: int | None = None) -> Steps:
    """The reversed allgather."""
    yield from reverse(allgather(group, aggregation))
