"""Dissemination barrier (Hensgen, Finkel and Manber 1988).

>>> from collalgo import verify
>>> print(verify("dissemination", size=12, collective="barrier"))
barrier of 12 ranks: 4 steps, 0 n bytes, 48 links, same bits on every rank
"""

from collalgo.algorithms.radix import powers
from collalgo.schedule import Group, Steps, recv, send


def barrier(group: Group, radix: int = 2) -> Steps:
    """Each round of tokens, from k times as far, covers k times as many ranks."""
    for distance in powers(group.size, radix):
        shifts = range(distance, min(radix * distance, group.size), distance)
        yield (
            *(send(group.peer(group.rank + shift)) for shift in shifts),
            *(recv(group.peer(group.rank - shift)) for shift in shifts),
        )
