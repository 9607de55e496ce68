"""Plans: transfers of units of data between ranks, ordered into steps."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.synthesis.ordering import Ordering
from collalgo._kernels.synthesis.sorting import grouped
from collalgo.base.digest import blake2b
from collalgo.cost.messages import Messages, joined
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.packing import Trees
from collalgo.synthesis.pair_links import PairLinks

#: The lanes of units that are combined with those of one peer in a step, and of several
#: peers; units that are copied in the same step have the next lane.
OF_ONE, OF_SEVERAL = 1, 7

#: The number of all lanes.
LANES = OF_SEVERAL + 1

#: The kinds of transfers as of :class:`~collalgo.cost.messages.Messages`.
SEND, RECV, RECV_REDUCE = range(3)


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


class Plan(NamedTuple):
    """Transfers, and the step of each.

    Attributes
    ----------
    size : int
        The number of ranks.
    blocks, units : int
        The number of blocks of the buffer, 1, one for each rank or one for each pair
        of ranks, and the number of units of each.
    transfers : Transfers
        The transfers.
    step, lane : ndarray
        The step and the lane of each.
    """

    size: int
    blocks: int
    units: int
    transfers: Transfers
    step: Ints
    lane: Ints

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.step.max(initial=-1)) + 1

    @property
    def digest(self) -> str:
        """The identity of all transfers with their steps and lanes."""
        found = blake2b(repr(self[:3]).encode(), digest_size=16)
        for column in (*self.transfers, self.step, self.lane):
            found.update(np.ascontiguousarray(column, np.int64).tobytes())
        return found.hexdigest()

    def reversed(self, reduces: bool) -> "Plan":
        """The plan from its end to its beginning, with sends as receives."""
        transfers = self.transfers.reversed(reduces)
        return self._replace(transfers=transfers, step=self.steps - 1 - self.step)

    def then(self, other: "Plan") -> "Plan":
        """Append another plan of the same units."""
        pairs = zip(self.transfers, other.transfers, strict=True)
        transfers = Transfers._make([np.concatenate(pair) for pair in pairs])
        step = np.concatenate([self.step, other.step + self.steps])
        lane = np.concatenate([self.lane, other.lane])
        return self._replace(transfers=transfers, step=step, lane=lane)

    @property
    def messages(self) -> Messages:
        """The messages of all ranks: by sender, receiver, step and lane."""
        source, target, *_, reduces = self.transfers
        # Transfers of a lane are of one kind. Sorting numbers takes a fraction of the
        # time of sorting their places.
        key = np.stack([self.step, source, target, self.lane, reduces])
        shape = (max(1, self.steps), self.size, self.size, LANES, 2)
        found, count = np.unique(np.ravel_multi_index(key, shape), return_counts=True)
        step, source, target, lane, combines = np.unravel_index(found, shape)
        share = count / (self.blocks * self.units)
        taken = np.where(combines, RECV_REDUCE, RECV)
        sent = np.full(len(found), SEND)
        return joined(
            [
                Messages(step, source, sent, target, lane, share),
                Messages(step, target, taken, source, lane, share),
            ]
        )


class Dependencies(NamedTuple):
    """The dependencies between transfers, one entry for each.

    ``joint`` has an entry for each transfer: those with the same number carry one unit
    that a rank combines (in a reversed plan, distributes); it is -1 for others.
    """

    before: Ints
    after: Ints
    joint: Ints

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


class Pace(NamedTuple):
    """The length of steps.

    Attributes
    ----------
    least : float
        The seconds that a step takes at least, for each byte of a unit.
    fraction : float
        The part of the remaining load of the busiest link that a step takes at most, if
        that is more.
    several : bool
        Whether a rank combines a unit with those of several others in a step.
    """

    least: float
    fraction: float = 0.0
    several: bool = False


def ordered(
    pairs: PairLinks,
    transfers: Transfers,
    waits: Dependencies,
    pace: Pace,
    late: Reals,
) -> tuple[Ints, Ints]:
    """The step and the lane of each transfer; no link is busy for longer in a step.

    Parameters
    ----------
    pairs
        The links between the ranks.
    transfers, waits
        The transfers, and their dependencies.
    pace
        The length of the steps.
    late
        The number of steps within which each transfer should be done, unless another
        waits for it; then it is done before that one.
    """
    height = _heights(len(transfers.source), waits)
    order = np.argsort(late - height, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ordering = _ordering(pairs, transfers, waits, pace.several, order, place)
    found = ordering.steps(pace.least, pace.fraction)
    used = np.bincount(found) > 0
    step = (np.cumsum(used) - 1)[found[place]]
    copied = OF_SEVERAL if pace.several else OF_ONE
    lane = np.where(waits.joint < 0, copied, ordering.lane[place])
    return step, lane if (waits.joint >= 0).any() else 0 * lane


def _ordering(
    pairs: PairLinks,
    transfers: Transfers,
    waits: Dependencies,
    several: bool,
    order: Ints,
    place: Ints,
) -> Ordering:
    """The transfers in the order in which they are tried; ``place`` inverts it."""
    before, after = place[waits.before], place[waits.after]
    first_after, by_first = grouped(before, len(order))
    busy = pairs.parts / pairs.bytes_per_second[pairs.links]
    pair = (transfers.source * pairs.size + transfers.target)[order]
    hub = np.where(transfers.reduces, transfers.target, transfers.source)[order]
    return Ordering(
        pair,
        pairs.first,
        pairs.links,
        busy,
        first_after,
        after[by_first],
        waits.joint[order],
        pairs.on_one_host[pair],
        hub,
        (transfers.source + transfers.target)[order] - hub,
        several,
        len(pairs.bytes_per_second),
    )


def _heights(count: int, waits: Dependencies) -> Ints:
    """The number of transfers that wait for each one in a row."""
    height = np.zeros(count, np.int64)
    while True:
        higher = height.copy()
        np.maximum.at(higher, waits.before, height[waits.after] + 1)
        if (higher == height).all():
            return height
        height = higher
