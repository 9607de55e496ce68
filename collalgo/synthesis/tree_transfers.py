"""Transfers of units of data along trees, and which of them wait for others."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule.transfers import Ints
from collalgo.synthesis.packing import Trees
from collalgo.synthesis.pair_links import MANY

#: The most transfers of a plan. Of many ranks it has more at most, and more that only
#: turn into each other: each rank needs only its own.
MOST_TRANSFERS, MOST_OF_MANY, MOST_TURNED = 1 << 19, 1 << 22, 1 << 23


def most_transfers(size: int, turns: bool) -> int:
    """The most transfers of a plan of some ranks, which may turn into each other."""
    if size <= MANY:
        return MOST_TRANSFERS
    return MOST_TURNED if turns else MOST_OF_MANY


class Transfers(NamedTuple):
    """Transfers of units, one entry for each.

    Attributes
    ----------
    source, target : ndarray
        The ranks.
    block, unit : ndarray
        The number of the block of the buffer, and of the unit in it.
    reduces : ndarray of bool
        Whether the target combines the unit with its own.
    """

    source: Ints
    target: Ints
    block: Ints
    unit: Ints
    reduces: NDArray[np.bool_]

    def reversed(self, reduces: bool) -> "Transfers":
        """The transfers the other way."""
        combined = np.full(len(self.source), reduces)
        return Transfers(self.target, self.source, self.block, self.unit, combined)

    def split(self, parts: int) -> "Transfers":
        """The transfers of equal parts of each unit."""
        found = Transfers._make([np.repeat(column, parts) for column in self])
        return found._replace(unit=_split(self.unit, parts))


class Dependencies(NamedTuple):
    """The dependencies between transfers, one entry for each.

    ``joint`` has an entry for each transfer: those with the same number carry one unit
    that a rank combines (in a reversed plan, distributes); it is -1 for others.
    """

    before: Ints
    after: Ints
    joint: Ints

    def heights(self, count: int) -> Ints:
        """The number of transfers that wait for each of some in a row."""
        height = np.zeros(count, np.int64)
        while True:
            higher = height.copy()
            np.maximum.at(higher, self.before, height[self.after] + 1)
            if (higher == height).all():
                return height
            height = higher

    def split(self, parts: int) -> "Dependencies":
        """The same for the transfers of equal parts of each unit."""
        joint = np.where(
            np.repeat(self.joint, parts) < 0, -1, _split(self.joint, parts)
        )
        return Dependencies(
            _split(self.before, parts), _split(self.after, parts), joint
        )


def _split(numbers: Ints, parts: int) -> Ints:
    """The numbers of the parts of numbered items."""
    return (numbers[:, None] * parts + np.arange(parts)).ravel()


def down(
    trees: Trees, block: Ints, unit: Ints, to_combine: bool = False
) -> tuple[Transfers, Dependencies]:
    """The transfers of a unit from the root of each tree to all its ranks.

    With ``to_combine`` the plan is used in reverse, to combine contributions.
    """
    tree, target = np.nonzero(trees.parents >= 0)
    source = trees.parents[tree, target].astype(np.int64)
    index = np.full(trees.parents.shape, -1)
    index[tree, target] = np.arange(len(tree))
    before = index[tree, source]
    waits = np.flatnonzero(before >= 0)
    combined = np.zeros(len(tree), bool)
    found = Transfers(source, target, block[tree], unit[tree], combined)
    joint = np.full(len(tree), -1)
    if to_combine:
        joint = tree * trees.parents.shape[1] + source
    return found, Dependencies(before[waits], waits, joint)


def up_and_down(
    trees: Trees, block: Ints, unit: Ints
) -> tuple[Transfers, Dependencies]:
    """The transfers of a unit up each tree, where it is combined, and down again."""
    onward, waits = down(trees, block, unit, to_combine=True)
    count = len(onward.source)
    tree, child = np.nonzero(trees.parents >= 0)
    parent = trees.parents[tree, child]
    of_root = np.flatnonzero(trees.parents[tree, parent] < 0)
    last, first = _pairs_of_equal(tree[of_root], len(trees.parents))
    before = [waits.after, waits.before + count, of_root[last]]
    after = [waits.before, waits.after + count, of_root[first] + count]
    pairs = zip(onward.reversed(reduces=True), onward, strict=True)
    both = Transfers._make([np.concatenate(pair) for pair in pairs])
    joint = np.concatenate([waits.joint, np.full(count, -1)])
    return both, Dependencies(np.concatenate(before), np.concatenate(after), joint)


def _pairs_of_equal(keys: Ints, count: int) -> tuple[Ints, Ints]:
    """All pairs of places with equal keys; the keys are in ascending order."""
    first = np.searchsorted(keys, np.arange(count + 1))
    lengths = np.diff(first)[keys]
    left = np.repeat(np.arange(len(keys)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return left, np.repeat(first[keys], lengths) + np.arange(len(left)) - starts
