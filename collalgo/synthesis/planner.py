"""The planner: the plans of collectives on the links of a topology."""

from collections.abc import Iterator, Mapping
from functools import cached_property, reduce
from threading import RLock
from types import MappingProxyType
from typing import NamedTuple

from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line, rounds as in_rounds
from collalgo.schedule.collective import COLLECTIVES
from collalgo.synthesis import traffic
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.plan import Plan
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.traffic import Maker, Traffic
from collalgo.topology.model import Topology

#: The most ranks that are planned for, as many as a schedule is proved for before it
#: runs; and the most for an alltoall, which has a path for each two of them.
MOST_RANKS, MOST_IN_ALLTOALL = 64, 32


class Stage(NamedTuple):
    """A part of a collective.

    Attributes
    ----------
    make : callable
        Makes its traffic.
    reverse : bool
        Whether data moves from the ends of the trees to their roots.
    reduces : bool
        Whether data is combined. Its steps are all alike then, since a rank can combine
        a unit with that of one rank only in each.
    """

    make: Maker
    reverse: bool = False
    reduces: bool = False


#: How each collective can be done, by the name of the way.
PLANNED: Mapping[str, Mapping[str, tuple[Stage, ...]]] = MappingProxyType(
    {
        "allgather": {"trees": (Stage(traffic.allgather),)},
        "reduce_scatter": {"trees": (Stage(traffic.allgather, True, True),)},
        "allreduce": {
            "trees": (Stage(traffic.allreduce, reduces=True),),
            "blocks": (Stage(traffic.allgather, True, True), Stage(traffic.allgather)),
        },
        "broadcast": {"trees": (Stage(traffic.broadcast),)},
        "reduce": {"trees": (Stage(traffic.broadcast, True, True),)},
        "scatter": {"paths": (Stage(traffic.scatter),)},
        "gather": {"paths": (Stage(traffic.scatter, True),)},
        "alltoall": {"paths": (Stage(traffic.alltoall),)},
    }
)


#: The names of paces, and the part of what the busiest link has left to carry that a
#: step takes at most; even steps are all alike.
EVEN = "even"
PACES: Mapping[str, float] = MappingProxyType({EVEN: 0.0, "fifth": 0.2, "half": 0.5})


def can_change_pace(collective: str, way: str) -> bool:
    """Whether some steps of a way may be longer than others."""
    return not all(stage.reduces for stage in PLANNED[collective][way])


def can_plan(collective: str, placement: Placement) -> bool:
    """Whether a collective is planned for ranks: not too many, on a topology."""
    if collective not in PLANNED or not isinstance(placement.machine, Topology):
        return False
    return 2 <= placement.size <= most_ranks(collective)


def most_ranks(collective: str) -> int:
    """The most ranks that a collective is planned for."""
    return MOST_IN_ALLTOALL if COLLECTIVES[collective].blocks > 1 else MOST_RANKS


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
        self._steps: dict[tuple[str, str, int, int, str], PlannedSteps] = {}
        self._lock = RLock()  # ranks that are threads share the plans

    @cached_property
    def pairs(self) -> PairLinks:
        """The links between the ranks."""
        return PairLinks.of(self._placement)

    def steps(
        self, collective: str, way: str, rounds: int, root: int = 0, pace: str = EVEN
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
        pace
            One of :data:`PACES`.
        """
        key = collective, way, rounds, root, pace
        with self._lock:
            if key not in self._steps:
                plans = [
                    self._plan(stage, one, rounds, pace)
                    for stage, one in self._stages(collective, way, root)
                ]
                self._steps[key] = PlannedSteps(reduce(Plan.then, plans))
            return self._steps[key]

    @staticmethod
    def _plan(stage: Stage, of: Traffic, rounds: int, pace: str) -> Plan:
        """The plan of a stage."""
        plan = of.plan(rounds, 0.0 if stage.reduces else PACES[pace])
        return plan.reversed(stage.reduces) if stage.reverse else plan

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
            busy = sum(
                one.busy / (one.blocks * one.units)
                for _, one in self._stages(collective, way, 0)
            )
        return busy * COLLECTIVES[collective].buffers(self._placement.size)

    def price(self, collective: str, way: str, rounds: int, pace: str = EVEN) -> Line:
        """The price of a collective from rank 0, over the bytes of its buffer."""
        messages = self.steps(collective, way, rounds, pace=pace).plan.messages
        buffers = COLLECTIVES[collective].buffers(self._placement.size)
        return in_rounds(messages, self.pairs.routes).line.over(buffers)
