"""Dissemination barrier (Hensgen, Finkel and Manber 1988).

>>> from collalgo import verify
>>> print(verify("dissemination", size=12, collective="barrier"))
barrier of 12 ranks: 4 steps, 0 n bytes, 48 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, doublings, recv, send


def barrier(group: Group) -> Steps:
    """After each token from twice as far I have heard from twice as many ranks."""
    for distance in doublings(group.size):
        yield (
            send(group.peer(group.rank + distance)),
            recv(group.peer(group.rank - distance)),
        )
