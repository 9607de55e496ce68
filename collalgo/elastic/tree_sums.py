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


class Sums:
    """Neighbouring nodes of the tree with their sums, added as the tree adds them.

    Parameters
    ----------
    shards
        The number of shards of the tree.
    new_total
        Makes an array for the sum of a node, from the number of arrays made before.

    Attributes
    ----------
    nodes : list of Node
        The largest nodes of what was added so far, in order.
    totals : list of array
        Their sums.
    """

    def __init__(self, shards: int, new_total: Callable[[int], Numbers] | None = None):
        self._shards, self._new_total = shards, new_total
        self._unused: list[Numbers] = []
        self.nodes: list[Node] = []
        self.totals: list[Numbers] = []

    def add_shard(self, number: int, parts: Sequence[Numbers]) -> None:
        """Add the next shard: arrays whose elements follow each other."""
        if number % 2 and self.nodes[-1:] == [(0, number - 1)]:
            _add(self.totals[-1], parts)
            self.nodes[-1] = Node(1, number // 2)
            self._climb()
            return
        assert self._new_total is not None
        if self._unused:
            total = self._unused.pop()
        else:
            total = self._new_total(len(self.totals))
        if len(parts) == 1:
            np.copyto(total, parts[0])
        else:
            np.concatenate(parts, out=total)
        self.add(Node(0, number), total)

    def add(self, node: Node, total: Numbers | None = None) -> None:
        """Append the next node; its sum is overwritten. Without one, only nodes are."""
        self.nodes.append(node)
        if total is not None:
            self.totals.append(total)
        self._climb()

    def _climb(self) -> None:
        """Replace the last node by the largest one that is complete."""
        while True:
            level, number = self.nodes[-1]
            if number % 2 and self.nodes[-2:-1] == [(level, number - 1)]:
                self._merge()
            elif number % 2 or (number + 1) << level < self._shards or not number:
                return  # its sibling is not here yet, or it is the root
            self.nodes[-1] = Node(level + 1, number // 2)

    def _merge(self) -> None:
        """Add the last sum to the one before."""
        self.nodes.pop()
        if self.totals:
            last = self.totals.pop()
            np.add(self.totals[-1], last, out=self.totals[-1])
            self._unused.append(last)


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


def nodes_of(shards: int, rank: int, size: int) -> list[Node]:
    """The nodes of which a member has the sums."""
    found = Sums(shards)
    for number in share(shards, rank, size):
        found.add(Node(0, number))
    return found.nodes
