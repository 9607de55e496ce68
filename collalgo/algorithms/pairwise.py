"""Pairwise: every rank talks to every other, some at a time, and nothing is forwarded.

>>> from collalgo import verify
>>> print(verify("pairwise", size=8, collective="alltoall"))
alltoall of 8 ranks: 7 steps, 7/8 n bytes, 56 links, same bits on every rank
"""

from collections.abc import Callable, Collection, Sequence
from math import isqrt

from collalgo.algorithms import bruck
from collalgo.algorithms.forwarding import everything
from collalgo.schedule import Group, Steps, recv, recv_reduce, send

#: Bytes from which on a block is worth a message of its own.
LARGE_BLOCK = 4096


def meetings(group: Group) -> list[tuple[int, int]]:
    """The receiver and the sender of my messages in each round.

    With a power of two of ranks the same one, so that both directions of a link are
    busy; otherwise over growing distances.
    """
    rounds = range(1, group.size)
    if group.size & (group.size - 1) == 0:
        return [(group.rank ^ i, group.rank ^ i) for i in rounds]
    return [
        ((group.rank + i) % group.size, (group.rank - i) % group.size) for i in rounds
    ]


def alltoall(group: Group, batch: int = 1) -> Steps:
    """Each block goes straight to its target, ``batch`` blocks in one step."""
    yield from spread_out(group, batch)


def spread_out(
    group: Group,
    batch: int | None = None,
    takes_part: Callable[[int, int], bool] = everything,
) -> Steps:
    """All blocks, by default in one step."""
    met = meetings(group)
    me = group.rank
    for first in range(0, len(met), batch or group.size):
        now = met[first : first + (batch or group.size)]
        yield (
            *(
                send(group.peer(to), (group.block(me, to),))
                for to, _ in now
                if takes_part(me, to)
            ),
            *(
                recv(group.peer(source), (group.block(source, me),))
                for _, source in now
                if takes_part(source, me)
            ),
        )


def hybrid(group: Group, large: Collection[tuple[int, int]] = ()) -> Steps:
    """Large blocks, named by source and target, go directly, small ones by Bruck."""

    def is_large(source: int, target: int) -> bool:
        return (group.peer(source), group.peer(target)) in large

    def is_small(source: int, target: int) -> bool:
        return not is_large(source, target)

    yield from spread_out(group, takes_part=is_large)
    yield from bruck.alltoall(group, takes_part=is_small)


def large_blocks(nbytes: Sequence[int]) -> dict[str, frozenset[tuple[int, int]]]:
    """The blocks that are large, by the bytes of all blocks, row by row."""
    size = isqrt(len(nbytes))
    large = (divmod(i, size) for i, count in enumerate(nbytes) if count >= LARGE_BLOCK)
    return {"large": frozenset(large)}


def reduce_scatter(group: Group) -> Steps:
    """Each rank receives its chunk from one other rank per round."""
    for to, source in meetings(group):
        yield (
            send(group.peer(to), group.chunk(to)),
            recv_reduce(group.peer(source), group.chunk(group.rank)),
        )
