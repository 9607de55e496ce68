"""The traffic of collectives: transfers along trees, to be ordered into steps."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.packing import pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.plan import Pace, Plan, ordered
from collalgo.synthesis.tree_transfers import (
    Dependencies,
    Transfers,
    down,
    up_and_down,
)

#: The units of all blocks together, and the most and the least units of a block.
UNITS, MOST, LEAST = 512, 64, 4

#: The units of a buffer without blocks, and those of all pairs of ranks together.
OF_WHOLE, OF_PAIRS = 240, 2048

#: The transfers over the busiest link in a step, and the most transfers of a plan.
IN_STEP, MOST_TRANSFERS = 16, 1 << 17

#: The steps between the first and the last units of a block: what has to pass several
#: ranks comes first, since nothing else waits for it.
AHEAD = 2.0

#: The golden ratio, whose multiples are spread evenly between whole numbers.
GOLDEN = 0.6180339887498949


class Traffic(NamedTuple):
    """Transfers that are to be ordered into steps.

    Attributes
    ----------
    pairs : PairLinks
        The links that they take, perhaps as sets that turn into each other.
    blocks, units : int
        As of the plan.
    transfers, waits : Transfers, Dependencies
        The transfers and their dependencies, without those that they turn into.
    busy : float
        The seconds that the busiest link needs, for each byte of a unit.
    """

    pairs: PairLinks
    blocks: int
    units: int
    transfers: Transfers
    waits: Dependencies
    busy: float

    def plan(self, rounds: int, fraction: float = 0.0, several: bool = False) -> Plan:
        """The plan in which the busiest link carries its load in a number of steps.

        There are fewer steps if one may take a fraction of the remaining load.
        """
        parts = self._parts(rounds)
        transfers, waits = self.transfers.split(parts), self.waits.split(parts)
        pace = Pace(self.busy * parts / rounds, fraction, several)
        span = AHEAD if self.blocks > 1 else rounds
        late = span * phases(self.transfers.unit, parts)
        found = ordered(self.pairs, transfers, waits, pace, late)
        units = self.units * parts
        plan = Plan(self.pairs.size, self.blocks, units, transfers, *found)
        return plan.turned(self.pairs.turning)

    def _parts(self, rounds: int) -> int:
        """The number of parts of each unit, so that many of them are in each step."""
        pair = self.transfers.source * self.pairs.size + self.transfers.target
        counts = np.bincount(pair, minlength=self.pairs.size**2)
        load = np.zeros(len(self.pairs.bytes_per_second))
        of = np.repeat(np.arange(len(counts)), np.diff(self.pairs.first))
        np.add.at(load, self.pairs.links, counts[of] * self.pairs.parts)
        busiest = load[(load / self.pairs.bytes_per_second).argmax()]
        wanted = -(-IN_STEP * rounds // max(1, int(busiest)))
        most = MOST_TRANSFERS // (len(pair) * self.pairs.turning.count)
        return max(1, min(wanted, most))


def phases(unit: Ints, parts: int) -> Reals:
    """The begin of the transfers of each part of each unit, from 0 to 1.

    The parts of a unit are spread evenly, those of one unit between those of others.
    """
    offset = unit * GOLDEN % 1
    return ((offset[:, None] + np.arange(parts)) / parts).ravel()


#: Makes traffic from a root, over some links; the last is whether the plan is to be
#: used backwards, to combine what ranks have.
Maker: TypeAlias = Callable[[PairLinks, int, bool], Traffic]


def units_of(size: int) -> int:
    """The number of units of a block."""
    return min(MOST, max(LEAST, UNITS // size))


def allgather(pairs: PairLinks, _root: int, to_combine: bool) -> Traffic:
    """Trees from each rank, each with a unit of its block."""
    pairs, units = pairs.turned, units_of(pairs.size)
    roots = np.array(pairs.turning.symmetry.representatives)
    unit, number = np.divmod(np.arange(len(roots) * units), len(roots))
    block = roots[number]
    trees = pack(pairs, block.tolist())
    return Traffic(
        pairs, pairs.size, units, *down(trees, block, unit, to_combine), trees.busy
    )


def scatter(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Paths from the root to each rank, each with a unit of its block."""
    others, units = pairs.size - 1, units_of(pairs.size)
    unit, number = np.divmod(np.arange(others * units), others)
    block = (root + 1 + number) % pairs.size
    trees = pack(pairs, [root] * len(block), block.tolist())
    return Traffic(
        pairs, pairs.size, units, *down(trees, block, unit, to_combine), trees.busy
    )


def alltoall(pairs: PairLinks, _root: int, to_combine: bool) -> Traffic:
    """Paths from each rank to each other, each with a unit of their block."""
    pairs, size = pairs.turned, pairs.size
    units = min(MOST, max(LEAST, OF_PAIRS // (size * (size - 1))))
    each = np.flatnonzero(~np.eye(size, dtype=bool))
    each = each[np.isin(each // size, pairs.turning.symmetry.representatives)]
    ends, unit = np.tile(each, units), np.repeat(np.arange(units), len(each))
    source, target = np.divmod(ends, size)
    trees = pack(pairs, source.tolist(), target.tolist())
    return Traffic(
        pairs, size * size, units, *down(trees, ends, unit, to_combine), trees.busy
    )


def broadcast(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Trees from the root, each with a unit of the buffer."""
    trees, unit = pack(pairs, [root] * OF_WHOLE), np.arange(OF_WHOLE)
    return Traffic(
        pairs, 1, OF_WHOLE, *down(trees, 0 * unit, unit, to_combine), trees.busy
    )


def allreduce(pairs: PairLinks, _root: int, _to_combine: bool) -> Traffic:
    """Trees that each combine a unit of the buffer, and send it back."""
    pairs = pairs.turned
    turns, roots = pairs.turning.count, pairs.turning.symmetry.representatives
    unit = np.arange(-(-OF_WHOLE // turns))
    trees = pack(pairs, [roots[i % len(roots)] for i in unit], both_ways=True)
    units = len(unit) * turns
    return Traffic(pairs, 1, units, *up_and_down(trees, 0 * unit, unit), trees.busy)
