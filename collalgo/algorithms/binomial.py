"""Binomial trees, rooted at position 0: the ranks involved double with each step.

>>> from collalgo import verify
>>> print(verify("binomial", size=8, collective="broadcast"))
broadcast of 8 ranks: 3 steps, 3 n bytes, 7 links, same bits on every rank
"""

from collalgo.schedule import Group, Steps, doublings, recv, recv_reduce, send


def broadcast(group: Group) -> Steps:
    """Who has the data passes it on, over half the distance each time."""
    for distance in reversed(doublings(group.size)):
        place = group.rank % (2 * distance)
        if place == 0 and group.rank + distance < group.size:
            yield send(group.peer(group.rank + distance), group.whole)
        elif place == distance:
            yield recv(group.peer(group.rank - distance), group.whole)


def scatter(group: Group) -> Steps:
    """Who has the chunks of a range of ranks passes on those of its upper half."""
    for distance in reversed(doublings(group.size)):
        place = group.rank % (2 * distance)
        upper = group.rank - place + distance
        chunks = group.chunks(upper, min(upper + distance, group.size))
        if place == 0 and upper < group.size:
            yield send(group.peer(upper), chunks)
        elif place == distance:
            yield recv(group.peer(group.rank - distance), chunks)


def reduce(group: Group) -> Steps:
    """Who has summed its subtree hands the sum to its parent."""
    for distance in doublings(group.size):
        place = group.rank % (2 * distance)
        if place == 0 and group.rank + distance < group.size:
            yield recv_reduce(group.peer(group.rank + distance), group.whole)
        elif place == distance:
            yield send(group.peer(group.rank - distance), group.whole)
