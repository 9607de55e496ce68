"""Packed trees: each tree of a forest carries its share of the data.

A tree is the parent of every rank, -1 at its root, as a planner finds them for a
topology (Blink, ForestColl). Without a forest there are two binomial trees, rooted at
the first rank and at the one in the middle.

>>> from collalgo import verify
>>> chains = ((-1, 0, 1, 2), (1, 2, 3, -1))
>>> print(verify("forest", size=4, collective="allreduce", trees=chains))
allreduce of 4 ranks: 6 steps, 3 n bytes, 6 links, same bits on every rank
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from collalgo.algorithms import tree
from collalgo.schedule import Chunks, Group, ScheduleError, Steps, divide, together


def binomial(size: int, root: int) -> list[int]:
    """The parents in a binomial tree."""
    parents = [-1] * size
    for away in range(1, size):
        parents[(root + away) % size] = (root + (away & (away - 1))) % size
    return parents


def allreduce(
    group: Group, trees: Sequence[Sequence[int]] = (), weights: Sequence[int] = ()
) -> Steps:
    """Each tree sums its share of the data, by its weight, and sends it back."""
    trees = trees or [binomial(group.size, root) for root in (0, group.size // 2)]
    weights = weights or [1] * len(trees)
    parts = divide(group.whole, sum(weights))
    schedules = []
    for parents, weight in zip(trees, weights, strict=True):
        share: Chunks = tuple(chunk for part in parts[:weight] for chunk in part)
        del parts[:weight]
        shapes = checked(tuple(parents), group.size)
        schedules.append(up_and_down(group.sharing(share), shapes[group.rank]))
    yield from together(*schedules)


def unfit(_: int, given: Mapping[str, Any]) -> str | None:
    """The reason why trees and weights do not match, or None."""
    trees, weights = given.get("trees") or (), given.get("weights") or ()
    expected = len(trees) or 2
    if not weights or len(weights) == expected:
        return None
    return f"there are {len(weights)} weights for {expected} trees; give one for each"


def up_and_down(group: Group, shape: list[tree.Round]) -> Steps:
    """Reduce to the root of a tree, then broadcast from it."""
    yield from tree.reduce(group, shape)
    yield from tree.broadcast(group, shape)


@cache
def checked(parents: tuple[int, ...], size: int) -> list[list[tree.Round]]:
    """The shapes of a tree in which all ranks lead to one root."""
    if len(parents) != size or parents.count(-1) != 1:
        raise ScheduleError(
            f"a tree gives {len(parents)} ranks a parent and has {parents.count(-1)} "
            f"roots; need {size} ranks and one root (-1)"
        )
    if not -1 <= min(parents) <= max(parents) < size:
        raise ScheduleError(f"the parents {parents} must be ranks below {size}")
    shapes = tree.of_parents(tuple(None if up < 0 else up for up in parents))
    if len(shapes) != size:
        raise ScheduleError(f"some ranks have no path to the root of {parents}")
    return shapes
