"""Neighbor exchange: pairs of chunks in n/2 steps with two neighbours (Chen 2005).

>>> from collalgo import verify
>>> print(verify("neighbor_exchange", size=8, collective="allgather"))
allgather of 8 ranks: 4 steps, 7/8 n bytes, 16 links, same bits on every rank
"""

from collalgo.schedule import Chunks, Group, Steps, recv, send


def obstacle(size: int) -> str | None:
    """The reason why ``size`` ranks cannot run it, or None."""
    if size > 1 and size % 2:
        return f"needs an even number of ranks but there are {size}"
    return None


def allgather(group: Group) -> Steps:
    """Exchange chunks with a neighbour, then forward the last received pair."""
    mine = group.rank - group.rank % 2
    sign = -1 if group.rank % 2 else 1

    def pair(step: int) -> Chunks:
        """The chunks of a step: pairs from both sides alternately, ever farther."""
        start = mine + sign * (step if step % 2 == 0 else -step - 1)
        return group.chunks(start, start + 2)

    for step in range(group.size // 2):
        peer = group.peer(group.rank - sign if step % 2 else group.rank + sign)
        if step == 0:
            other = group.chunk(group.rank + sign)
            yield send(peer, group.chunk(group.rank)), recv(peer, other)
        else:
            yield send(peer, pair(step - 1)), recv(peer, pair(step))
