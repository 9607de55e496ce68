"""The algorithm ``synthesized``: the plans of a topology as a row like any other."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import Any

from collalgo.algorithms.parameters import COMMON, PIECES, Range, number, suits
from collalgo.algorithms.row import Algorithm
from collalgo.algorithms.table import parse
from collalgo.cost.placement import Placement
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import Group, ScheduleFunction, Steps
from collalgo.synthesis.forms import MANY, forms
from collalgo.synthesis.obstacles import OfMachine, OfSize
from collalgo.synthesis.paces import EVEN, PACES
from collalgo.synthesis.plan import OF_ONE, OF_SEVERAL
from collalgo.synthesis.planner import (
    MOST_ALIKE,
    MOST_RANKS,
    MOST_UNLIKE,
    ONE,
    PEERS,
    ROUNDS,
    SEVERAL,
    Form,
    Planner,
    can_plan,
)
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.ways import PLANNED, WAVES

#: The name of the algorithm.
NAME = "synthesized"

#: The collectives to one rank that combine data.
TO_ROOT = ("reduce",)

#: The most rounds of trees that are tried beside waves whose busiest link is as busy.
MOST_BESIDE_WAVES = 64

#: The times of the busiest link, relative to each other, that count as the same.
AS_BUSY = 1.005


class Synthesized:
    """Each unit of the data has a tree of its own; together they load the links evenly.

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
        rounds: int = ROUNDS,
        pace: str = EVEN,
        machine: str = "",
        peers: str = ONE,
    ) -> Steps:
        """The steps of a rank; the root is at position 0 of the group."""
        assert machine in ("", self.planner.machine)
        form = Form(way or first_way(self.collective), rounds, pace, peers)
        yield from self.planner.steps(self.collective, form, group.peer(0)).of(group)


class Synthesis:
    """The rows of the algorithm for ranks on a topology.

    Parameters
    ----------
    planner
        The plans of the topology.
    """

    def __init__(self, planner: Planner):
        self.planner = planner
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
                lane_count=_lanes,
                size_obstacle=OfSize(self.planner.size),
                unfit=OfMachine(self.planner.machine),
            )
        return self._rows[collective]

    def variants(self, collective: str) -> list[Algorithm]:
        """The row with each form that is tried and has not too many transfers."""
        row, machine = self.row(collective), {"machine": self.planner.machine}
        found = [
            form
            for way in PLANNED[collective]
            for form in forms(collective, way)
            if self.planner.is_tried(form)
            and self.planner.obstacle(collective, form) is None
        ]
        most = inf
        if any(form.way == WAVES for form in found):
            most = MOST_BESIDE_WAVES if self._fill_links(collective) else MANY
        return [
            row.with_parameters(_parameters(form) | machine)
            for form in found
            if form.way == WAVES or form.rounds <= most
        ]

    def _fill_links(self, collective: str) -> bool:
        """Whether waves to one rank load the links as evenly as many more trees.

        Then they are cheaper than the trees in many steps, which take long to plan.
        """
        if collective not in TO_ROOT:
            return False
        forms = Form(WAVES), Form(first_way(collective))
        waves, trees = (self.planner.least(collective, form).per_byte for form in forms)
        return waves <= AS_BUSY * trees

    def named(self, collective: str, name: str) -> Algorithm:
        """The row of a name, which may give parameters.

        Raises
        ------
        AlgorithmNotApplicable
            If it has no such parameter, is for another machine, or has too many
            transfers.
        """
        _, parameters = parse(name)
        row = self.row(collective).with_parameters(parameters)
        obstacle = row.obstacle(self.planner.size)
        if obstacle := obstacle or self.planner.obstacle(collective, form_of(row)):
            raise AlgorithmNotApplicable(
                f"{collective}: {name}: {obstacle}", collective=collective
            )
        return row if parameters else self.row(collective)


def form_of(row: Algorithm) -> Form:
    """The form of a row."""
    given = {name: value for name, value in row.parameters if name in Form._fields}
    given["way"] = given.get("way") or first_way(row.collective)
    return Form(**given)


def first_way(collective: str) -> str:
    """The way of a plan whose name does not give it."""
    return next(iter(PLANNED[collective]))


def _parameters(form: Form) -> dict[str, Any]:
    """The parameters of a form, without the peers if it has one at a time."""
    given = form._asdict()
    if form.peers == ONE:
        del given["peers"]
    return given


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
        As of :func:`synthesized_row`.
    """
    if not is_name(name):
        return None
    row = synthesized_row(collective, name, placement)
    return row.schedule if row.parameters else row.function


def synthesized_row(collective: str, name: str, placement: Placement) -> Algorithm:
    """The row of a name that may give parameters.

    Raises
    ------
    AlgorithmNotApplicable
        If it has no such parameter, or the collective or the ranks cannot be planned.
    """
    if not can_plan(collective, placement):
        raise AlgorithmNotApplicable(
            f"{collective}: {NAME} is for {', '.join(PLANNED)} on a topology, with 2 "
            f"to {MOST_ALIKE} ranks on equal hosts, to {MOST_UNLIKE} on others and to "
            f"{MOST_RANKS} of an alltoall, and there are {placement.size}",
            collective=collective,
        )
    return Synthesis(Planner(placement)).named(collective, name)


def steps_of(row: Algorithm, root: int) -> PlannedSteps:
    """The steps of a synthesised row, whose plan is kept on disk."""
    assert isinstance(row.function, Synthesized)
    return row.function.planner.steps(row.collective, form_of(row), root)


def is_plain(row: Algorithm) -> bool:
    """Whether ranks run the plan of a row as it is: not in segments, say."""
    return {name for name, _ in row.parameters} <= {*Form._fields, "machine"}


def _lanes(_: int, given: Mapping[str, Any]) -> int:
    """The most lanes of a plan between two ranks."""
    return 1 + (OF_SEVERAL if given.get("peers") == SEVERAL else OF_ONE)


@cache
def _ranges(collective: str) -> dict[str, Range]:
    """The values that the parameters of a collective can have."""
    ways = tuple(PLANNED[collective])
    return {
        "way": Range(f"one of {', '.join(ways)}", _one_of(ways), suits),
        "rounds": number(1, PIECES),
        "pace": Range(f"one of {', '.join(PACES)}", _one_of([*PACES]), suits),
        "peers": Range(f"one of {', '.join(PEERS)}", _one_of(PEERS), suits),
        "machine": Range("the name of a machine", str, suits),
    }


def _one_of(ways: Sequence[str]) -> Any:
    def checked(value: object) -> str:
        if value not in ways:
            raise ValueError
        return str(value)

    return checked
