"""The algorithm ``synthesized``: the plans of a topology as a row like any other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from collalgo.algorithms.lanes import two
from collalgo.algorithms.parameters import COMMON, PIECES, Range, number, suits
from collalgo.algorithms.row import Algorithm
from collalgo.algorithms.table import parse
from collalgo.cost.placement import Placement
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import Group, ScheduleFunction, Steps
from collalgo.synthesis.planner import (
    EVEN,
    PACES,
    PLANNED,
    Planner,
    can_change_pace,
    can_plan,
    most_ranks,
)

#: The name of the algorithm.
NAME = "synthesized"

#: The numbers of rounds and the paces that are tried.
TRIED = ((4, EVEN), (16, EVEN), (64, EVEN))

#: What is tried beside them where some steps may be longer than others, and elsewhere.
LONGER, SHORTER = ((64, "fifth"), (64, "half"), (128, "fifth")), ((128, EVEN),)


class Synthesized:
    """Each unit of the data takes a tree of its own; together they load links evenly.

    Parameters
    ----------
    planner
        The plans of the topology.
    collective
        One of those that can be planned.
    """

    def __init__(self, planner: Planner, collective: str):
        self.planner, self.collective = planner, collective
        self.__name__ = self.__qualname__ = NAME

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Synthesized) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str]:
        return self.collective, self.planner.machine

    def __call__(
        self,
        group: Group,
        way: str = "",
        rounds: int = 16,
        pace: str = EVEN,
        machine: str = "",
    ) -> Steps:
        """The steps of a rank; the root is at position 0 of the group."""
        assert machine in ("", self.planner.machine)
        way = way or next(iter(PLANNED[self.collective]))
        steps = self.planner.steps(self.collective, way, rounds, group.peer(0), pace)
        yield from steps.of(group)


class Synthesis:
    """The rows of the algorithm for ranks on a topology.

    Parameters
    ----------
    placement
        The device of each rank.
    """

    def __init__(self, placement: Placement):
        self._placement = placement
        self.planner = Planner(placement)
        self._rows: dict[str, Algorithm] = {}

    def row(self, collective: str) -> Algorithm:
        """The row of a collective, without parameters."""
        if collective not in self._rows:
            function = Synthesized(self.planner, collective)
            self._rows[collective] = Algorithm(
                collective,
                NAME,
                function,
                ranges=tuple({**COMMON, **_ranges(collective)}.items()),
                lane_count=two,
                unfit=Fit(self._placement.size, self.planner.machine),
            )
        return self._rows[collective]

    def variants(self, collective: str) -> list[Algorithm]:
        """The row with each way, number of rounds and pace."""
        machine = self.planner.machine
        return [
            self.row(collective).with_parameters(
                {"way": way, "rounds": rounds, "pace": pace, "machine": machine}
            )
            for way in PLANNED[collective]
            for rounds, pace in _tried(collective, way)
        ]

    def named(self, collective: str, name: str) -> Algorithm:
        """The row of a name, which may give parameters.

        Raises
        ------
        AlgorithmNotApplicable
            If it has no such parameter, or is for another machine.
        """
        _, parameters = parse(name)
        row = self.row(collective).with_parameters(parameters)
        if obstacle := row.obstacle(self._placement.size):
            raise AlgorithmNotApplicable(
                f"{collective}: {name}: {obstacle}", collective=collective
            )
        return row if parameters else self.row(collective)


def _tried(collective: str, way: str) -> Sequence[tuple[int, str]]:
    """The numbers of rounds and the paces that are tried."""
    return TRIED + (LONGER if can_change_pace(collective, way) else SHORTER)


def is_name(name: str) -> bool:
    """Whether a name, which may give parameters, is that of synthesised schedules."""
    return name.partition("(")[0] == NAME


def synthesized(
    collective: str, name: str, placement: Placement
) -> ScheduleFunction | None:
    """The schedule of a name that may give parameters; None if it is another's.

    Raises
    ------
    AlgorithmNotApplicable
        If it has no such parameter, or the collective or the ranks cannot be planned.
    """
    if not is_name(name):
        return None
    if not can_plan(collective, placement):
        raise AlgorithmNotApplicable(
            f"{collective}: {NAME} is for {', '.join(PLANNED)} on a topology, with 2 "
            f"to {most_ranks(collective)} ranks, and there are {placement.size}",
            collective=collective,
        )
    row = Synthesis(placement).named(collective, name)
    return row.schedule if row.parameters else row.function


@dataclass(frozen=True)
class Fit:
    """The ranks and the machine that plans are for."""

    size: int
    machine: str

    def __call__(self, size: int, given: Mapping[str, Any], /) -> str | None:
        """The reason why a plan is not for these ranks, or None."""
        if size != self.size:
            return f"the plan is for {self.size} ranks, not for {size}"
        machine = given.get("machine") or self.machine
        if machine != self.machine:
            return (
                f"the plan is for machine {machine!r}, and this is {self.machine!r}; "
                "leave the parameter out"
            )
        return None


@cache
def _ranges(collective: str) -> dict[str, Range]:
    """The values that the parameters of a collective can have."""
    ways = tuple(PLANNED[collective])
    return {
        "way": Range(f"one of {', '.join(ways)}", _one_of(ways), suits),
        "rounds": number(1, PIECES),
        "pace": Range(f"one of {', '.join(PACES)}", _one_of([*PACES]), suits),
        "machine": Range("the name of a machine", str, suits),
    }


def _one_of(ways: Sequence[str]) -> Any:
    def checked(value: object) -> str:
        if value not in ways:
            raise ValueError
        return str(value)

    return checked
