"""The traffic of collectives: transfers along trees, to be ordered into steps."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.centres import centred
from collalgo.synthesis.paces import Lengths
from collalgo.synthesis.packing import pack
from collalgo.synthesis.pair_links import MANY, PairLinks
from collalgo.synthesis.plan import Plan, ordered
from collalgo.synthesis.transfer_loads import TransferLoads
from collalgo.synthesis.tree_transfers import (
    Dependencies,
    Transfers,
    down,
    most_transfers,
    up_and_down,
)

#: The units of all blocks together, and the most and the least units of a block.
UNITS, MOST, LEAST = 512, 64, 4

#: The most units of all blocks that all ranks receive.
MOST_DELIVERIES = 1 << 20

#: The multiples of these units that are tried where ranks turn into each other. Of many
#: ranks a tree has many edges that are alike, so that few trees cannot balance links.
MULTIPLES, MULTIPLES_OF_MANY = (2, 4), (2, 3, 4, 6, 8, 12)

#: The units of a buffer without blocks.
OF_WHOLE = 240

#: The transfers over the busiest link in a step.
IN_STEP = 12

#: More units must lower the load of the busiest link to this part.
FEWER = 0.99

#: A link is nearly as busy as the busiest one with this part of its load.
NEARLY = 0.7

#: The steps between the first and the last units of a block: what has to pass several
#: ranks comes first, since nothing else waits for it.
AHEAD = 2.0

#: The steps by which trees that carry data in each step may carry it before its time.
IN_WAVES = 4.0

#: The steps by which a transfer over the busiest link comes before others of its unit
#: that are due at the same time: a rank may combine only some of them in a step.
EARLIER = 1e-6

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
    spread : float
        The part of all steps between the first and the last units of a block, or of the
        buffer; 0 for a few steps.
    """

    pairs: PairLinks
    blocks: Blocks
    transfers: Transfers
    waits: Dependencies
    busy: float
    begin: Reals | None = None
    in_waves: bool = False
    spread: float = 0.0

    def represented(
        self, rounds: int, lengths: Lengths, several: bool, parts_of_round: int
    ) -> Plan:
        """The plan in which the busiest link carries its load in some even steps.

        In waves each of these has some parts of each unit. What the transfers turn into
        is left out.
        """
        parts = self._parts(rounds * parts_of_round)
        transfers, waits = self.transfers.split(parts), self.waits.split(parts)
        pace = lengths.pace(self.busy * parts / rounds)._replace(several=several)
        late = self._late(rounds, parts, lengths.lead)
        if self.in_waves:
            pace = pace._replace(ahead=IN_WAVES, whole=True)
            late -= EARLIER * np.repeat(self._loads.fullness, parts)
        weights = self.blocks.weights[transfers.block]
        found = ordered(self.pairs, transfers, waits, pace, late, weights)
        return Plan(self.pairs.size, self.blocks.split(parts), transfers, *found)

    def _late(self, rounds: int, parts: int, lead: float) -> Reals:
        """The number of steps within which each transfer of parts should be done."""
        heights = self.waits.heights(len(self.transfers.source))
        before = lead * np.repeat(heights, parts)
        if self.begin is not None:
            return rounds * np.repeat(self.begin, parts) - before
        span = rounds if self.in_waves else max(AHEAD, self.spread * rounds)
        return span * phases(self.transfers.unit, parts) - before

    def _parts(self, rounds: int) -> int:
        """The number of parts of each unit, so that many of them are in each step.

        A slow link that is nearly as busy as the busiest one carries the fewest.
        """
        if self.in_waves:
            return max(1, min(rounds, self._most_parts))
        wanted = -(-IN_STEP * rounds // max(1, int(self._loads.fewest(NEARLY))))
        return max(1, min(wanted, self._most_parts))

    @property
    def least_latency(self) -> float:
        """The least seconds of a message over the busiest link."""
        return self._loads.least_latency

    @property
    def _loads(self) -> TransferLoads:
        weights = self.blocks.weights[self.transfers.block]
        return TransferLoads.of(self.pairs, self.transfers, weights)

    @property
    def _most_parts(self) -> int:
        """The most parts of each unit in a plan."""
        return self._most // (len(self.transfers.source) * self.pairs.turning.count)

    @property
    def _most(self) -> int:
        """The most transfers of a plan."""
        return most_transfers(self.pairs.size, self.pairs.turning.count > 1)

    def obstacle(self, rounds: int, parts_of_round: int = 1) -> str | None:
        """The reason why a number of steps has too many transfers in waves, or None."""
        most = self._most_parts // parts_of_round
        if not self.in_waves or rounds <= most:
            return None
        each = len(self.transfers.source) * self.pairs.turning.count
        return (
            f"{rounds} rounds make {rounds * parts_of_round * each} transfers, but a "
            f"plan has at most {self._most}; pass at most {most} rounds"
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
    units, turns = units_of(pairs.size), pairs.turning.count > 1
    most = most_transfers(pairs.size, turns) // (2 * pairs.size**2)
    tried = MULTIPLES_OF_MANY if pairs.size > MANY else MULTIPLES
    more = [one * units for one in tried if turns and one * units <= most]
    return [units, *more]


def _allgather_of(pairs: PairLinks, units: int, to_combine: bool) -> Traffic:
    """Trees from each representative of the ranks, as many as a block has units."""
    roots = np.array(pairs.turning.symmetry.representatives)
    unit, number = np.divmod(np.arange(len(roots) * units), len(roots))
    block = roots[number]
    key = allgather, units
    trees = pairs.once(key, lambda: pack(pairs, block.tolist()))
    blocks = Blocks.equal(pairs.size, units)
    return Traffic(pairs, blocks, *down(trees, block, unit, to_combine), trees.busy)


def broadcast(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Trees from the root, each with a unit of the buffer."""
    key, unit = (broadcast, root), np.arange(OF_WHOLE)
    trees = pairs.once(key, lambda: pack(pairs, [root] * OF_WHOLE))
    found = down(trees, 0 * unit, unit, to_combine)
    return Traffic(pairs, Blocks.equal(1, OF_WHOLE), *found, trees.busy, spread=1.0)


def allreduce(pairs: PairLinks, _root: int, _to_combine: bool) -> Traffic:
    """Trees that each combine a unit of the buffer, and send it back."""
    pairs = pairs.turned
    turns, roots = pairs.turning.count, pairs.turning.symmetry.representatives
    unit = np.arange(-(-OF_WHOLE // turns))
    trees = pack(pairs, [roots[i % len(roots)] for i in unit], both_ways=True)
    trees = trees._replace(parents=centred(trees.parents))
    units = len(unit) * turns
    blocks = Blocks.equal(1, units)
    found = up_and_down(trees, 0 * unit, unit)
    return Traffic(pairs, blocks, *found, trees.busy, spread=1.0)
