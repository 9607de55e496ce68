"""Forwarding: an alltoall in which blocks travel by several hops."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

from collalgo.schedule import Chunks, Group, Steps, recv, send

#: The distance from a block's source to its target, and the part already covered.
Way: TypeAlias = tuple[int, int]


def everything(_: int, __: int) -> bool:
    """All blocks take part."""
    return True


def forward(
    group: Group,
    hops: Sequence[Sequence[int]],
    takes_part: Callable[[int, int], bool] = everything,
) -> Steps:
    """In each phase, every block moves by the hop of its path.

    Parameters
    ----------
    group
        The ranks.
    hops
        For each distance between source and target, how far a block travels in each
        phase; 0 to stay.
    takes_part
        Whether the block of a source for a target is sent at all.
    """
    for phase in range(len(hops[0])):
        ways: dict[int, list[Way]] = defaultdict(list)
        for way, taken in enumerate(hops):
            if taken[phase]:
                ways[taken[phase]].append((way, sum(taken[:phase])))
        leaving = {
            hop: passing(group, group.rank, ways[hop], takes_part) for hop in ways
        }
        coming = {
            hop: passing(group, group.rank - hop, ways[hop], takes_part) for hop in ways
        }
        yield (
            *(send(group.peer(group.rank + hop), b) for hop, b in leaving.items() if b),
            *(recv(group.peer(group.rank - hop), b) for hop, b in coming.items() if b),
        )


def passing(
    group: Group,
    position: int,
    ways: Sequence[Way],
    takes_part: Callable[[int, int], bool],
) -> Chunks:
    """The blocks that are at a position on some of the paths."""
    pairs = [
        ((position - gone) % group.size, (position - gone + way) % group.size)
        for way, gone in ways
    ]
    return tuple(group.block(*pair) for pair in pairs if takes_part(*pair))
