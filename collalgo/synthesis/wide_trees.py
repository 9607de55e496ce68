"""Trees over many equal groups of ranks, with few messages of each rank in a step.

A unit goes from the root to a relay of its group, from there to the relays of all other
groups along a tree of these, and in each group from the relay to all ranks.

The trees of the groups have inner groups of their own: with r children each, a group
sends the units of one of r trees r times, so that it sends as much as it receives
(SplitStream; Castro et al., 2003). In a group the ranks are around a circle: all
relays send by the same jumps, so that the ranks have few peers and equal loads.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from collalgo.schedule.transfers import Ints
from collalgo.synthesis.centres import Parents

#: The root sends to its relays over heads, one for at least this many relays.
FEW = 8

#: The numbers of children of a group that are tried, and the numbers of digits of the
#: place of a rank in its group.
CHILDREN, DIGITS = (1, 2, 3, 4, 6, 8), (1, 2, 3)


def over_groups(groups: Sequence[list[int]], most_trees: int) -> Iterator[Parents]:
    """The parents of ranks in trees over equal groups, for each form that is tried.

    The first group begins with the root. Each relay has trees of its own, as many as a
    group has children, or else one tree.
    """
    others, members = len(groups) - 1, len(groups[0])
    for children, digits in product(CHILDREN, DIGITS):
        if children > max(1, others - 1) or 2**digits > 2 * members:
            continue
        spread = spread_around(members, digits)
        among = trees_among(others, children)
        for each in sorted({1, len(among)}):
            if members * each <= most_trees:
                heads = 0 if digits == 1 else members // FEW
                yield np.array(_trees(groups, among, spread, each, heads))


def _trees(
    groups: Sequence[list[int]], among: Ints, spread: Ints, each: int, heads: int
) -> list[Parents]:
    """Some trees of each relay."""
    every, home = np.array(groups), _Home(groups[0], heads)
    trees = []
    for copy, relay in product(range(each), range(len(groups[0]))):
        above = among[(copy + relay) % len(among)]
        found = _tree(every, above, spread, relay)
        home.spread(found, relay)
        trees.append(found)
    return trees


def _tree(every: Ints, above: Ints, spread: Ints, relay: int) -> Parents:
    """The tree of a relay, given the parent of each other group."""
    members = every.shape[1]
    found = np.empty(every.size, np.int32)
    around = (np.arange(members) - relay) % members
    found[every] = every[:, (spread[around] + relay) % members]
    tops = every[1:, relay]
    found[tops] = np.where(above < 0, every[0, relay], tops[above])
    return found


class _Home:
    """The group of the root, which comes first.

    The root sends each unit once inside it: to the relay, maybe over a head, so that
    it has few peers. What the root and the head would send to others, ranks do that
    have sent less.
    """

    def __init__(self, ranks: Sequence[int], heads: int):
        self._root, *self._others = ranks
        self._heads = heads
        self._sent = dict.fromkeys(ranks, 0)

    def spread(self, found: Parents, relay: int) -> None:
        """Change a tree so that the root sends its unit once inside the group."""
        root, others = self._root, self._others
        helper = others[max(0, relay - 1)] if others else root
        head = others[relay % self._heads] if self._heads else helper
        idle = {root, head} - {helper}
        orphans = [
            one for one in others if found[one] in idle and one not in (helper, head)
        ]
        depth = {one: 1 for one in others if found[one] == helper and one != head}
        depth[helper] = 0
        for one in orphans:
            above = min(depth, key=lambda rank: self._sent[rank] + depth[rank])
            found[one], depth[one] = above, depth[above] + 1
            self._sent[above] += 1
        found[helper], found[head], found[root] = head, root, -1
        for one in set(others) - {*orphans}:
            self._sent[int(found[one])] += 1


def spread_around(members: int, digits: int) -> Ints:
    """The parent of each place around a circle, of trees from place 0.

    Places are numbers of some digits. The parent has the last digit that is not 0 less.

    Examples
    --------
    >>> spread_around(8, 1).tolist(), spread_around(8, 3).tolist()
    ([0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 2, 0, 4, 4, 6])
    """
    radices, left = [], members
    for number in range(digits, 0, -1):
        radices.append(max(2, round(left ** (1 / number))))
        left = -(-left // radices[-1])
    found = np.arange(members)
    for number in range(digits):
        stride, radix = prod(radices[:number]), radices[number]
        is_last = found == np.arange(members)
        digit = found // stride % radix if number < digits - 1 else found // stride
        found = np.where(is_last, found - digit * stride, found)
    return found


def trees_among(groups: int, children: int) -> Ints:
    """The parent of each group in some trees, -1 for the first, one row a tree.

    Each group has about as many children in all trees as there are trees.

    Examples
    --------
    >>> trees_among(5, 2).tolist()
    [[-1, 2, 0, 2, 0], [3, -1, 3, 1, 1]]
    """
    left = np.full(groups, children)
    return np.array([_tree_among(left, tree, children) for tree in range(children)])


def _tree_among(left: Ints, tree: int, children: int) -> Ints:
    """A tree whose inner groups have children left, which they lose."""
    groups = len(left)
    own = np.arange(groups) % children != tree
    order = np.lexsort((np.arange(groups), own, -left))
    found, next_one = np.full(groups, -1), 1
    for group in order:
        count = min(left[group], groups - next_one)
        found[order[next_one : next_one + count]] = group
        left[group] -= count
        next_one += count
    return found
