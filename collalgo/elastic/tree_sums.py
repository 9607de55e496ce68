"""The tree over logical shards, by which their contributions are added.

Shard ``2 k`` and ``2 k + 1`` are added, then the sums of two, and so on. A last node
without a sibling moves up as it is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

Numbers = NDArray[Any]

#: The characters of native dtypes whose elements allreduces and NumPy add to the same
#: bits: of two members with a node each, an allreduce adds what the tree adds.
ADDED_ALIKE = "bBhHiIlLqQfdFD"


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


def share(shards: int, rank: int, size: int) -> range:
    """The neighbouring shards of one of ``size`` members."""
    return range(shards * rank // size, shards * (rank + 1) // size)


def shards_of(shards: int, rank: int, size: int) -> list[Node]:
    """The nodes of the shards of a member, one for each."""
    return [Node(0, number) for number in share(shards, rank, size)]


def nodes_of(shards: int, rank: int, size: int) -> list[Node]:
    """The nodes of which a member has the sums."""
    return merged(shards, shards_of(shards, rank, size))[1]
