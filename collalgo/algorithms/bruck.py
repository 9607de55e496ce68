"""Bruck: few rounds for any number of ranks (Bruck et al. 1997).

>>> from collalgo import verify
>>> print(verify("bruck", size=12, collective="allgather"))
allgather of 12 ranks: 4 steps, 11/12 n bytes, 48 links, same bits on every rank
>>> print(verify("bruck", size=16, collective="alltoall"))
alltoall of 16 ranks: 4 steps, 2 n bytes, 64 links, same bits on every rank
"""

from collections.abc import Callable

from collalgo.algorithms.forwarding import everything, forward
from collalgo.algorithms.radix import powers
from collalgo.schedule import Group, Steps, recv, send


def allgather(group: Group, radix: int = 2) -> Steps:
    """The run of chunks from my own on grows k-fold in every step."""
    me = group.rank
    for distance in powers(group.size, radix):
        shifts = range(distance, min(radix * distance, group.size), distance)
        counts = [min(distance, group.size - shift) for shift in shifts]
        yield (
            *(
                send(group.peer(me - shift), group.chunks(me, me + count))
                for shift, count in zip(shifts, counts, strict=True)
            ),
            *(
                recv(
                    group.peer(me + shift), group.chunks(me + shift, me + shift + count)
                )
                for shift, count in zip(shifts, counts, strict=True)
            ),
        )


def alltoall(
    group: Group,
    radix: int = 2,
    takes_part: Callable[[int, int], bool] = everything,
) -> Steps:
    """A block travels its distance digit by digit."""
    distances = powers(group.size, radix)
    hops = [
        [distance * (way // distance % radix) for distance in distances]
        for way in range(group.size)
    ]
    yield from forward(group, hops, takes_part)
