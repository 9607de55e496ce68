"""Along a tree: what trees of any shape have in common.

A shape is seen from one position, round by round: from which parent data comes in a
round of a broadcast, and to which children it goes. All positions count all rounds.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeAlias

from collalgo.schedule import Group, Steps, recv, reverse, send

#: The parent to receive from in a round, and the children to send to.
Round: TypeAlias = tuple[int | None, Sequence[int]]

IDLE: Round = (None, ())


def by_depth(
    depth: int, height: int, parent: int | None, children: Sequence[int]
) -> list[Round]:
    """The rounds of a tree in which a rank sends to all its children at once.

    Parameters
    ----------
    depth
        How many ranks are above me.
    height
        The largest depth.
    parent, children
        Those of mine.
    """
    rounds = [IDLE] * height
    if parent is not None:
        rounds[depth - 1] = parent, ()
    if children:
        rounds[depth] = None, children
    return rounds


@cache
def of_parents(parents: tuple[int | None, ...]) -> list[list[Round]]:
    """The shapes of all positions of a tree, from their parents."""
    children: list[list[int]] = [[] for _ in parents]
    for position, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(position)
    depths = {parents.index(None): 0}
    for above in (order := list(depths)):
        depths |= dict.fromkeys(children[above], depths[above] + 1)
        order += children[above]
    height = max(depths.values())
    return [
        by_depth(depths[i], height, parents[i], children[i])
        for i in range(len(parents))
        if i in depths
    ]


def shared(
    group: Group, shapes: Sequence[Sequence[list[Round]]]
) -> list[tuple[Group, list[Round]]]:
    """A part of the data for each tree, with the rounds of this rank in it."""
    parts = group.shares(len(shapes))
    return [(part, of[group.rank]) for part, of in zip(parts, shapes, strict=True)]


def broadcast(group: Group, shape: Iterable[Round]) -> Steps:
    """The data goes from each parent on to its children."""
    for parent, children in shape:
        if parent is not None:
            yield recv(group.peer(parent), group.whole)
        elif children:
            yield tuple([send(group.peer(child), group.whole) for child in children])
        else:
            yield ()


def reduce(group: Group, shape: Iterable[Round]) -> Steps:
    """Each rank adds the sums of its children to its own data, for its parent."""
    yield from reverse(broadcast(group, shape))
