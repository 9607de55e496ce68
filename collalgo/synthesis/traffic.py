"""The traffic of collectives: transfers along trees, to be ordered into steps."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.centres import centred
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

#: The most units of all blocks that all ranks receive.
MOST_DELIVERIES = 1 << 20

#: The units of a buffer without blocks, and those of all pairs of ranks together.
OF_WHOLE, OF_PAIRS = 240, 2048

#: The most units of the rank that sends or receives the most in an alltoallv, and those
#: of all ranks if they send as much.
OF_BUSIEST, OF_ALL_RANKS = 960, 4096

#: The transfers over the busiest link in a step, and the most transfers of a plan.
IN_STEP, MOST_TRANSFERS = 16, 1 << 19

#: More units must lower the load of the busiest link to this part.
FEWER = 0.99

#: A link is nearly as busy as the busiest one with this part of its load.
NEARLY = 0.7

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
    blocks : Blocks
        As of the plan.
    transfers, waits : Transfers, Dependencies
        The transfers and their dependencies, without those that they turn into.
    busy : float
        The seconds that the busiest link needs, for each byte of the largest unit.
    begin : ndarray, optional
        The part of all steps before each transfer; by default units are spread evenly.
    in_waves : bool
        Whether each unit has a part in each step in which the busiest link is full.
    """

    pairs: PairLinks
    blocks: Blocks
    transfers: Transfers
    waits: Dependencies
    busy: float
    begin: Reals | None = None
    in_waves: bool = False

    def plan(self, rounds: int, fraction: float = 0.0, several: bool = False) -> Plan:
        """The plan in which the busiest link carries its load in a number of steps.

        There are fewer steps if one may take a fraction of the remaining load.
        """
        parts = self._parts(rounds)
        transfers, waits = self.transfers.split(parts), self.waits.split(parts)
        pace = Pace(self.busy * parts / rounds, fraction, several)
        late = self._late(rounds, parts)
        weights = self.blocks.weights[transfers.block]
        found = ordered(self.pairs, transfers, waits, pace, late, weights)
        blocks = self.blocks.split(parts)
        plan = Plan(self.pairs.size, blocks, transfers, *found)
        return plan.turned(self.pairs.turning)

    def _late(self, rounds: int, parts: int) -> Reals:
        """The number of steps within which each transfer of parts should be done."""
        if self.begin is not None:
            return rounds * np.repeat(self.begin, parts)
        span = AHEAD if self.blocks.number > 1 else rounds
        return span * phases(self.transfers.unit, parts)

    def _parts(self, rounds: int) -> int:
        """The number of parts of each unit, so that many of them are in each step.

        A slow link that is nearly as busy as the busiest one carries the fewest.
        """
        if self.in_waves:
            return max(1, min(rounds, self._most_parts))
        pair = self.transfers.source * self.pairs.size + self.transfers.target
        weights = self.blocks.weights[self.transfers.block]
        counts = np.bincount(pair, weights, self.pairs.size**2)
        load = np.zeros(len(self.pairs.bytes_per_second))
        np.add.at(load, self.pairs.links, counts[self.pairs.pair] * self.pairs.parts)
        busy = load / self.pairs.bytes_per_second
        fewest = load[busy >= NEARLY * busy.max()].min()
        wanted = -(-IN_STEP * rounds // max(1, int(fewest)))
        return max(1, min(wanted, self._most_parts))

    @property
    def _most_parts(self) -> int:
        """The most parts of each unit in a plan."""
        return MOST_TRANSFERS // (len(self.transfers.source) * self.pairs.turning.count)

    def obstacle(self, rounds: int) -> str | None:
        """The reason why a number of steps has too many transfers in waves, or None."""
        if not self.in_waves or rounds <= self._most_parts:
            return None
        transfers = rounds * len(self.transfers.source)
        return (
            f"{rounds} rounds make {transfers} transfers, but a plan has at most "
            f"{MOST_TRANSFERS}; pass at most {self._most_parts} rounds"
        )


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
    least = max(1, min(LEAST, MOST_DELIVERIES // size**2))
    return min(MOST, max(least, UNITS // size))


def allgather(pairs: PairLinks, _root: int, to_combine: bool) -> Traffic:
    """Trees from each rank, each with a unit of its block.

    The fewer ranks represent all others, the fewer trees there are to balance each
    other: then more units are tried, too.
    """
    pairs, best, least = pairs.turned, None, np.inf
    for units in _numbers_of_units(pairs):
        found = _allgather_of(pairs, units, to_combine)
        if found.busy / units < FEWER * least:
            best, least = found, found.busy / units
    assert best is not None
    return best


def _numbers_of_units(pairs: PairLinks) -> list[int]:
    """The numbers of units of a block that are tried, in ascending order."""
    units = units_of(pairs.size)
    most = MOST_TRANSFERS // (2 * pairs.size**2)
    if pairs.turning.count == 1:
        return [units]
    return [units, *(one for one in (2 * units, 4 * units) if one <= most)]


def _allgather_of(pairs: PairLinks, units: int, to_combine: bool) -> Traffic:
    """Trees from each representative of the ranks, as many as a block has units."""
    roots = np.array(pairs.turning.symmetry.representatives)
    unit, number = np.divmod(np.arange(len(roots) * units), len(roots))
    block = roots[number]
    trees = pack(pairs, block.tolist())
    blocks = Blocks.equal(pairs.size, units)
    return Traffic(pairs, blocks, *down(trees, block, unit, to_combine), trees.busy)


def scatter(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Paths from the root to each rank, each with a unit of its block."""
    others, units = pairs.size - 1, units_of(pairs.size)
    unit, number = np.divmod(np.arange(others * units), others)
    block = (root + 1 + number) % pairs.size
    trees = pack(pairs, [root] * len(block), block.tolist())
    return Traffic(
        pairs,
        Blocks.equal(pairs.size, units),
        *down(trees, block, unit, to_combine),
        trees.busy,
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
        pairs,
        Blocks.equal(size * size, units),
        *down(trees, ends, unit, to_combine),
        trees.busy,
    )


def alltoallv(pairs: PairLinks, matrix: ByteMatrix) -> Traffic:
    """Paths from each rank to each other, with units of about the same size.

    Pairs of ranks without bytes have a path as well, so that the plan is one of an
    alltoall.
    """
    size = pairs.size
    each = np.flatnonzero(~np.eye(size, dtype=bool))
    blocks = _blocks_of(matrix)
    ends = np.repeat(each, blocks.units[each])
    first = np.cumsum(blocks.units[each]) - blocks.units[each]
    unit = np.arange(len(ends)) - np.repeat(first, blocks.units[each])
    order = np.lexsort((ends, (unit + 0.5) / blocks.units[ends]))
    ends, unit = ends[order], unit[order]
    weights = blocks.weights[ends]
    source, target = np.divmod(ends, size)
    trees = pack(pairs, source.tolist(), target.tolist(), weights=weights)
    found = down(trees, ends, unit)
    begin = _spread(trees.parents)[np.nonzero(trees.parents >= 0)[0]]
    return Traffic(pairs, blocks, *found, trees.busy, begin)


def _spread(paths: NDArray[np.int32]) -> Reals:
    """The places of the units of each path, spread evenly from 0 to 1.

    So each path carries data in all steps, and none waits for those before it.
    """
    _, path, counts = np.unique(paths, axis=0, return_inverse=True, return_counts=True)
    path = path.ravel()
    order = np.argsort(path, kind="stable")
    number = np.empty(len(path), np.int64)
    number[order] = np.arange(len(path)) - np.repeat(np.cumsum(counts) - counts, counts)
    found: Reals = (number + path * GOLDEN % 1) / counts[path]
    return found


def _blocks_of(matrix: ByteMatrix) -> Blocks:
    """The blocks of a matrix: a rank that sends or receives the most has many units."""
    nbytes = matrix.nbytes.ravel()
    most = max(matrix.nbytes.sum(axis=0).max(), matrix.nbytes.sum(axis=1).max(), 1)
    ranks = max(1, matrix.total // most)  # as busy as that one
    wanted = min(OF_BUSIEST, max(MOST, OF_ALL_RANKS // ranks))
    units = np.maximum(1, -(-nbytes * wanted // most))
    return Blocks.of(units, matrix.part)


def broadcast(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Trees from the root, each with a unit of the buffer."""
    trees, unit = pack(pairs, [root] * OF_WHOLE), np.arange(OF_WHOLE)
    return Traffic(
        pairs,
        Blocks.equal(1, OF_WHOLE),
        *down(trees, 0 * unit, unit, to_combine),
        trees.busy,
    )


def allreduce(pairs: PairLinks, _root: int, _to_combine: bool) -> Traffic:
    """Trees that each combine a unit of the buffer, and send it back."""
    pairs = pairs.turned
    turns, roots = pairs.turning.count, pairs.turning.symmetry.representatives
    unit = np.arange(-(-OF_WHOLE // turns))
    trees = pack(pairs, [roots[i % len(roots)] for i in unit], both_ways=True)
    trees = trees._replace(parents=centred(trees.parents))
    units = len(unit) * turns
    blocks = Blocks.equal(1, units)
    return Traffic(pairs, blocks, *up_and_down(trees, 0 * unit, unit), trees.busy)
