"""The planner: the plans of collectives on the links of a topology."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, reduce
from threading import RLock
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line, rounds as in_rounds
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.packing import pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.plan import (
    Dependencies,
    Plan,
    Transfers,
    down,
    ordered,
    up_and_down,
)
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.topology.model import Topology

#: The units of all blocks together, and the most and the least units of a block.
UNITS, MOST, LEAST = 512, 64, 4

#: The units of a buffer without blocks.
OF_WHOLE = 128

#: The transfers over the busiest link in a step, and the most transfers of a plan.
IN_STEP, MOST_TRANSFERS = 16, 1 << 17

#: The golden ratio, whose multiples are spread evenly between whole numbers.
GOLDEN = 0.6180339887498949

#: The most ranks that are planned for: as many as a schedule is proved for before it
#: runs. A plan of 128 ranks takes 10 to 20 s.
MOST_RANKS = 64


class Traffic(NamedTuple):
    """Transfers that are to be ordered into steps.

    Attributes
    ----------
    pairs : PairLinks
        The links that they take.
    blocks, units : int
        As of the plan.
    transfers, waits : Transfers, Dependencies
        The transfers, and which wait for which.
    busy : float
        The seconds that the busiest link needs, for each byte of a unit.
    """

    pairs: PairLinks
    blocks: int
    units: int
    transfers: Transfers
    waits: Dependencies
    busy: float

    def plan(self, rounds: int) -> Plan:
        """The plan in which the busiest link carries its load in so many steps."""
        parts = self._parts(rounds)
        transfers, waits = self.transfers.split(parts), self.waits.split(parts)
        late = rounds * phases(self.transfers.unit, parts)
        step = ordered(self.pairs, transfers, waits, self.busy * parts / rounds, late)
        return Plan(self.pairs.size, self.blocks, self.units * parts, transfers, step)

    def _parts(self, rounds: int) -> int:
        """The number of parts of each unit, so that many of them are in each step."""
        pair = self.transfers.source * self.pairs.size + self.transfers.target
        counts = np.bincount(pair, minlength=self.pairs.size**2)
        load = np.zeros(len(self.pairs.bytes_per_second))
        of = np.repeat(np.arange(len(counts)), np.diff(self.pairs.first))
        np.add.at(load, self.pairs.links, counts[of] * self.pairs.parts)
        busiest = load[(load / self.pairs.bytes_per_second).argmax()]
        wanted = -(-IN_STEP * rounds // max(1, int(busiest)))
        return max(1, min(wanted, MOST_TRANSFERS // len(pair)))


def phases(unit: Ints, parts: int) -> Reals:
    """When the transfers of each part of each unit are to begin, from 0 to 1.

    The parts of a unit are spread evenly, those of one unit between those of others.
    """
    offset = unit * GOLDEN % 1
    return ((offset[:, None] + np.arange(parts)) / parts).ravel()


#: Makes traffic from a root, over some links; the last is whether a rank sends a unit
#: to one rank at a time.
Maker: TypeAlias = Callable[[PairLinks, int, bool], Traffic]


def units_of(size: int) -> int:
    """The number of units of a block."""
    return min(MOST, max(LEAST, UNITS // size))


def allgather(pairs: PairLinks, _root: int, one_by_one: bool) -> Traffic:
    """Trees from each rank, each with a unit of its block."""
    units = units_of(pairs.size)
    unit, block = np.divmod(np.arange(pairs.size * units), pairs.size)
    trees = pack(pairs, block.tolist())
    return Traffic(
        pairs, pairs.size, units, *down(trees, block, unit, one_by_one), trees.busy
    )


def scatter(pairs: PairLinks, root: int, one_by_one: bool) -> Traffic:
    """Paths from the root to each rank, each with a unit of its block."""
    others, units = pairs.size - 1, units_of(pairs.size)
    unit, number = np.divmod(np.arange(others * units), others)
    block = (root + 1 + number) % pairs.size
    trees = pack(pairs, [root] * len(block), block.tolist())
    return Traffic(
        pairs, pairs.size, units, *down(trees, block, unit, one_by_one), trees.busy
    )


def broadcast(pairs: PairLinks, root: int, one_by_one: bool) -> Traffic:
    """Trees from the root, each with a unit of the buffer."""
    trees, unit = pack(pairs, [root] * OF_WHOLE), np.arange(OF_WHOLE)
    return Traffic(
        pairs, 1, OF_WHOLE, *down(trees, 0 * unit, unit, one_by_one), trees.busy
    )


def allreduce(pairs: PairLinks, _root: int, _one_by_one: bool) -> Traffic:
    """Trees that each combine a unit of the buffer, and send it back."""
    unit = np.arange(OF_WHOLE)
    trees = pack(pairs, (unit % pairs.size).tolist(), both_ways=True)
    return Traffic(pairs, 1, OF_WHOLE, *up_and_down(trees, 0 * unit, unit), trees.busy)


class Stage(NamedTuple):
    """A part of a collective.

    Attributes
    ----------
    make : callable
        Makes its traffic.
    reverse : bool
        Whether data moves from the ends of the trees to their roots.
    reduces : bool
        Whether it is combined then.
    """

    make: Maker
    reverse: bool = False
    reduces: bool = False


#: How each collective can be done, by the name of the way.
PLANNED: Mapping[str, Mapping[str, tuple[Stage, ...]]] = MappingProxyType(
    {
        "allgather": {"trees": (Stage(allgather),)},
        "reduce_scatter": {"trees": (Stage(allgather, True, True),)},
        "allreduce": {
            "trees": (Stage(allreduce),),
            "blocks": (Stage(allgather, True, True), Stage(allgather)),
        },
        "broadcast": {"trees": (Stage(broadcast),)},
        "reduce": {"trees": (Stage(broadcast, True, True),)},
        "scatter": {"paths": (Stage(scatter),)},
        "gather": {"paths": (Stage(scatter, True),)},
    }
)


def can_plan(collective: str, placement: Placement) -> bool:
    """Whether a collective is planned for ranks: not too many, on a topology."""
    if collective not in PLANNED or not isinstance(placement.machine, Topology):
        return False
    return 2 <= placement.size <= MOST_RANKS


class Planner:
    """Plans of collectives for ranks on a topology, each made once.

    Parameters
    ----------
    placement
        The device of each rank, on a topology.

    Attributes
    ----------
    machine : str
        The identity of all that plans depend on.
    """

    def __init__(self, placement: Placement):
        self._placement = placement
        self.machine = placement.digest[:8]
        self._traffic: dict[tuple[Stage, int], Traffic] = {}
        self._steps: dict[tuple[str, str, int, int], PlannedSteps] = {}
        self._lock = RLock()  # ranks that are threads share the plans

    @cached_property
    def pairs(self) -> PairLinks:
        """The links between the ranks."""
        return PairLinks.of(self._placement)

    def steps(
        self, collective: str, way: str, rounds: int, root: int = 0
    ) -> PlannedSteps:
        """The steps of a collective.

        Parameters
        ----------
        collective, way
            As in :data:`PLANNED`.
        rounds
            The number of steps in which the busiest link is to carry its load; there
            are more, until all ranks have data to send and until all are done.
        root
            The rank of the root.
        """
        key = collective, way, rounds, root
        with self._lock:
            if key not in self._steps:
                plans = [
                    plan.reversed(stage.reduces) if stage.reverse else plan
                    for stage, traffic in self._stages(collective, way, root)
                    for plan in [traffic.plan(rounds)]
                ]
                self._steps[key] = PlannedSteps(reduce(Plan.then, plans))
            return self._steps[key]

    def _stages(
        self, collective: str, way: str, root: int
    ) -> Iterator[tuple[Stage, Traffic]]:
        """Each stage of a collective, with its traffic."""
        for stage in PLANNED[collective][way]:
            key = stage, root
            if key not in self._traffic:
                pairs = self.pairs.reversed if stage.reverse else self.pairs
                self._traffic[key] = stage.make(pairs, root, stage.reduces)
            yield stage, self._traffic[key]

    def least_per_byte(self, collective: str, way: str) -> float:
        """The seconds that the busiest link needs for each byte of the buffer."""
        with self._lock:
            return sum(
                traffic.busy / (traffic.blocks * traffic.units)
                for _, traffic in self._stages(collective, way, 0)
            )

    def price(self, collective: str, way: str, rounds: int) -> Line:
        """The price of a collective from rank 0, over the bytes of its buffer."""
        messages = self.steps(collective, way, rounds).plan.messages
        return in_rounds(messages, self.pairs.routes).line
