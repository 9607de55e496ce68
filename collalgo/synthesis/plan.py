"""Plans: transfers of units of data between ranks, ordered into steps."""

from math import prod
from typing import NamedTuple

import numpy as np

from collalgo._kernels.synthesis.ordering import Ordering
from collalgo._kernels.synthesis.sorting import grouped
from collalgo.base.digest import blake2b
from collalgo.cost.messages import Messages, joined
from collalgo.cost.turning import Turning
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.paces import Pace
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.tree_transfers import Dependencies, Transfers

#: The lanes of units that are combined with those of one peer in a step, and of several
#: peers; units that are copied in the same step have the next lane.
OF_ONE, OF_SEVERAL = 1, 7

#: The number of all lanes.
LANES = OF_SEVERAL + 1

#: The numbers for each key up to which keys are counted and not sorted.
SPARSE = 32

#: The kinds of transfers as of :class:`~collalgo.cost.messages.Messages`.
SEND, RECV, RECV_REDUCE = range(3)


class Plan(NamedTuple):
    """Transfers, and the step of each.

    Attributes
    ----------
    size : int
        The number of ranks.
    blocks : Blocks
        The blocks of the buffer: 1, one for each rank or one for each pair of ranks.
    transfers : Transfers
        The transfers.
    step, lane : ndarray
        The step and the lane of each.
    """

    size: int
    blocks: Blocks
    transfers: Transfers
    step: Ints
    lane: Ints

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.step.max(initial=-1)) + 1

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        columns = (*self.transfers, self.step, self.lane, *self.blocks)
        return sum(column.nbytes for column in columns)

    @property
    def digest(self) -> str:
        """The identity of all transfers with their steps and lanes."""
        found = blake2b(repr(self.size).encode(), digest_size=16)
        for column in (self.blocks.units, *self.transfers, self.step, self.lane):
            found.update(np.ascontiguousarray(column, np.int64).tobytes())
        return found.hexdigest()

    def reversed(self, reduces: bool) -> "Plan":
        """The plan from its end to its beginning, with sends as receives."""
        transfers = self.transfers.reversed(reduces)
        return self._replace(transfers=transfers, step=self.steps - 1 - self.step)

    def turned(self, turning: Turning) -> "Plan":
        """The plan with all that its transfers turn into."""
        if turning.count == 1:
            return self
        count = len(self.step)
        turns, which = divmod(np.arange(turning.count * count), max(1, count))
        return self._turned(turning, which, turns)

    def of_rank(self, rank: int, turning: Turning) -> "Plan":
        """The transfers of one rank among all that those of a plan turn into."""
        source, target, *_ = self.transfers
        is_source, is_target = (
            turning.first[end] == turning.first[rank] for end in (source, target)
        )
        sent, taken = np.flatnonzero(is_source), np.flatnonzero(is_target)
        turns = [
            turning.number_of(end, np.full_like(end, rank))
            for end in (source[sent], target[taken])
        ]
        both = np.concatenate([sent, taken]), np.concatenate(turns)
        return self._turned(turning, *both)

    def to_lowest(self, turning: Turning) -> "Plan":
        """The same transfers, each turned so that its target is the lowest."""
        target = self.transfers.target
        turns = turning.number_of(target, turning.first[target])
        return self._turned(turning, np.arange(len(target)), turns)

    def _turned(self, turning: Turning, which: Ints, turns: Ints) -> "Plan":
        """Some transfers of a plan, each turned by a number of a turn.

        Turned transfers of one buffer carry other units, those of blocks other blocks.
        """
        of, images, blocks = self.transfers, turning.images, self.blocks.number
        block, unit = of.block[which], of.unit[which]
        if blocks == 1:
            unit = unit + turns * (self.blocks.units[0] // turning.count)
        elif blocks > self.size:
            first, second = divmod(block, self.size)
            block = images[turns, first] * self.size + images[turns, second]
        else:
            block = images[turns, block]
        ends = images[turns, of.source[which]], images[turns, of.target[which]]
        transfers = Transfers(*ends, block, unit, of.reduces[which])
        return Plan(*self[:2], transfers, self.step[which], self.lane[which])

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
        source, target, block, _, reduces = self.transfers
        # Transfers of a lane are of one kind.
        key = np.stack([self.step, source, target, self.lane, reduces])
        shape = (max(1, self.steps), self.size, self.size, LANES, 2)
        keys: Ints = np.asarray(np.ravel_multi_index(key, shape), np.int64)
        found, share = _sums(keys, self.blocks.share[block], prod(shape))
        step, source, target, lane, combines = np.unravel_index(found, shape)
        taken = np.where(combines, RECV_REDUCE, RECV)
        sent = np.full(len(found), SEND)
        return joined(
            [
                Messages(step, source, sent, target, lane, share),
                Messages(step, target, taken, source, lane, share),
            ]
        )


def _sums(keys: Ints, values: Reals, end: int) -> tuple[Ints, Reals]:
    """The keys of values that are not 0, in ascending order, and the sums of these.

    Keys are counted where that takes less than sorting them.
    """
    which, found = keys, np.arange(end if end <= SPARSE * len(keys) else 0)
    if not len(found):
        found, which = np.unique(keys, return_inverse=True)
    sums = np.bincount(which, values, len(found)).astype(np.float64)
    return found[sums > 0], sums[sums > 0]


def ordered(
    pairs: PairLinks,
    transfers: Transfers,
    waits: Dependencies,
    pace: Pace,
    late: Reals,
    weights: Reals | None = None,
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
        The number of steps within which each transfer should be done, less one for each
        transfer that waits for it in a row.
    weights
        The amount of data of each transfer; by default 1.
    """
    order = np.argsort(late, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ordering = _ordering(pairs, transfers, waits, pace.several, order, place, weights)
    found = ordering.steps(pace, pace.due(late[order]))
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
    weights: Reals | None,
) -> Ordering:
    """The transfers in the order in which they are tried; ``place`` inverts it."""
    before, after = place[waits.before], place[waits.after]
    first_after, by_first = grouped(before, len(order))
    pair = (transfers.source * pairs.size + transfers.target)[order]
    hub = np.where(transfers.reduces, transfers.target, transfers.source)[order]
    spoke = (transfers.source + transfers.target)[order] - hub
    return Ordering(
        pair,
        pairs.first,
        pairs.links,
        pairs.busy,
        first_after,
        after[by_first],
        waits.joint[order],
        pairs.on_one_host[pair],
        *pairs.turning.beside(hub, spoke),
        several,
        len(pairs.bytes_per_second),
        None if weights is None else weights[order],
    )
