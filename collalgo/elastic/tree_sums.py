"""The tree over logical shards, by which their contributions are added.

Shard ``2 k`` and ``2 k + 1`` are added, then the sums of two, and so on. A last node
without a sibling moves up as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]


class Node(NamedTuple):
    """A node of the tree: ``1 << level`` shards from ``number << level`` on."""

    level: int
    number: int


def merged(shards: int, nodes: Sequence[Node]) -> tuple[tuple[int, ...], list[Node]]:
    """How neighbouring nodes of the tree are added, and the nodes that are left.

    Parameters
    ----------
    shards
        The number of shards of the tree.
    nodes
        The nodes, in order.

    Returns
    -------
    merges : tuple of int
        For each node, how many sums of the nodes so far then become part of the one
        before.
    found : list of Node
        The largest nodes of which the sums are known at the end.
    """
    found: list[Node] = []
    merges = []
    for node in nodes:
        count = len(found) + 1
        found.append(node)
        _climb(shards, found)
        merges.append(count - len(found))
    return tuple(merges), found


def _climb(shards: int, nodes: list[Node]) -> None:
    """Replace the last node by the largest one that is complete."""
    while True:
        level, number = nodes[-1]
        if number % 2 and nodes[-2:-1] == [(level, number - 1)]:
            nodes.pop()
        elif number % 2 or (number + 1) << level < shards or not number:
            return  # its sibling is not here yet, or it is the root
        nodes[-1] = Node(level + 1, number // 2)


class Sums:
    """Sums of neighbouring nodes of the tree, added as the tree adds them.

    Parameters
    ----------
    merges
        For each node how often sums are added, of :func:`merged`.
    new_total
        Makes an array for a sum, from the number of arrays made before.
    length
        The elements of a shard; an array for a sum may have further ones behind them.
    """

    def __init__(
        self,
        merges: Sequence[int],
        new_total: Callable[[int], Numbers] | None = None,
        length: int | None = None,
    ):
        self._merges, self._new_total = iter(merges), new_total
        self._length = length
        self._arrays: list[Numbers] = []
        self._count = 0

    @property
    def totals(self) -> list[Numbers]:
        """The sums of the nodes that are left, in order."""
        return self._arrays[: self._count]

    def add_shard(self, parts: Sequence[Numbers]) -> None:
        """Add the next shard: arrays whose elements follow each other."""
        merges = next(self._merges)
        if merges:
            _add(self._arrays[self._count - 1][: self._length], parts)
            self._merge(merges - 1)
            return
        if self._count == len(self._arrays):
            assert self._new_total is not None
            self._arrays.append(self._new_total(self._count))
        total = self._arrays[self._count][: self._length]
        if len(parts) == 1:
            np.copyto(total, parts[0])
        else:
            np.concatenate(parts, out=total)
        self._count += 1

    def add(self, total: Numbers) -> None:
        """Add the sum of the next node, which is overwritten."""
        self._arrays[self._count :] = [total]
        self._count += 1
        self._merge(next(self._merges))

    def _merge(self, merges: int) -> None:
        """Add the last sum to the one before, some times."""
        for _ in range(merges):
            self._count -= 1
            total, last = self._arrays[self._count - 1 : self._count + 1]
            np.add(total, last, out=total)


def _add(total: Numbers, parts: Sequence[Numbers]) -> None:
    """Add arrays to the elements of a sum, one after the other."""
    if len(parts) == 1:
        np.add(total, parts[0], out=total)
        return
    begin = 0
    for part in parts:
        elements = total[begin : begin + part.size]
        np.add(elements, part, out=elements)
        begin += part.size


def share(shards: int, rank: int, size: int) -> range:
    """The neighbouring shards of one of ``size`` members."""
    return range(shards * rank // size, shards * (rank + 1) // size)


def shards_of(shards: int, rank: int, size: int) -> list[Node]:
    """The nodes of the shards of a member, one for each."""
    return [Node(0, number) for number in share(shards, rank, size)]


def nodes_of(shards: int, rank: int, size: int) -> list[Node]:
    """The nodes of which a member has the sums."""
    return merged(shards, shards_of(shards, rank, size))[1]
