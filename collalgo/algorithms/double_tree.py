"""Double binary tree: an inner rank of one tree is a leaf of the other (Sanders 2009).

The trees are those of NCCL, both under position 0, each for one half of the data.

>>> from collalgo import verify
>>> print(verify("double_tree", size=9, collective="reduce"))
reduce of 9 ranks: 7 steps, 7/4 n bytes, 16 links, same bits on every rank
"""

from collections.abc import Callable
from functools import cache

from collalgo.algorithms import tree
from collalgo.schedule import Group, Steps, together


def parent_of(position: int, size: int) -> int | None:
    """Odd positions are leaves; the lowest set bit gives the level of the others."""
    if position == 0:
        return None
    level = position & -position
    above = (position ^ level) | (level << 1)
    return above if above < size else position ^ level


@cache
def shapes(size: int) -> list[list[tree.Round]]:
    """Parents and children in the tree, for all positions."""
    return tree.of_parents(tuple(parent_of(i, size) for i in range(size)))


def trees(group: Group) -> list[Group]:
    """The group in the orders of both trees, each with a half of the data."""
    one, other = group.shares(2)
    if group.size % 2:
        return [one, other.reversed]
    return [one, other.reordered([0, *range(2, group.size), 1][: group.size])]


def along(group: Group, *walks: Callable[..., Steps]) -> Steps:
    """Run the schedules along one tree one after the other."""
    for walk in walks:
        yield from walk(group, shapes(group.size)[group.rank])


def broadcast(group: Group) -> Steps:
    """Each half of the data goes down its own tree."""
    yield from together(*(along(half, tree.broadcast) for half in trees(group)))


def reduce(group: Group) -> Steps:
    """Each half of the data is summed up its own tree."""
    yield from together(*(along(half, tree.reduce) for half in trees(group)))


def allreduce(group: Group) -> Steps:
    """Each half of the data is summed up its own tree, and goes back down."""
    yield from together(
        *(along(half, tree.reduce, tree.broadcast) for half in trees(group))
    )
