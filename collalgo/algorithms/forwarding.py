"""Forwarding: an alltoall in which blocks travel by several hops."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from collalgo.schedule import Chunks, Group, Steps, recv, send


def everything(_: int, __: int) -> bool:
    """Every block takes part."""
    return True


def forward(
    group: Group,
    hops: Sequence[Sequence[int]],
    takes_part: Callable[[int, int], bool] = everything,
) -> Steps:
    """In each phase every block goes as far as the hop of its way says.

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
        ways: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for way, taken in enumerate(hops):
            if taken[phase]:
                ways[taken[phase]].append((way, sum(taken[:phase])))

        def blocks(at: int, hop: int, ways: dict = ways) -> Chunks:  # type: ignore[type-arg]
            """What leaves position ``at`` with a hop."""
            pairs = ((at - gone, at - gone + way) for way, gone in ways[hop])
            return tuple(
                group.block(source % group.size, target % group.size)
                for source, target in pairs
                if takes_part(source % group.size, target % group.size)
            )

        leaving = [(hop, blocks(group.rank, hop)) for hop in ways]
        coming = [(hop, blocks(group.rank - hop, hop)) for hop in ways]
        yield (
            *(send(group.peer(group.rank + hop), b) for hop, b in leaving if b),
            *(recv(group.peer(group.rank - hop), b) for hop, b in coming if b),
        )
