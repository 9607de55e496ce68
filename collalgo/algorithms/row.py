"""A row of the table: an algorithm, with its parameters and what is known of it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from collalgo.algorithms.parameters import COMMON, MANY, Range
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import (
    LANES,
    Group,
    ScheduleFunction,
    Steps,
    pipeline,
    together,
)
from collalgo.schedule.collective import COLLECTIVES

#: Pieces of the data that are never too many, whatever the number of ranks.
FEW_PIECES = 256

#: The reason why parameters within their ranges do not fit together, or None.
Unfit: TypeAlias = Callable[[int, Mapping[str, Any]], str | None]

#: The largest number of lanes of an algorithm between two ranks, by number of ranks.
LaneCount: TypeAlias = Callable[[int, Mapping[str, Any]], int]


def own_parameters(function: ScheduleFunction) -> tuple[str, ...]:
    """The names of the parameters of a schedule, without the group.

    What is a function by default is for other algorithms, not for users.
    """
    remembered = inspect.isfunction(function)  # an object may have plans of megabytes
    return (_remembered_parameters if remembered else _own_parameters)(function)


@cache
def _remembered_parameters(function: ScheduleFunction) -> tuple[str, ...]:
    return _own_parameters(function)


def _own_parameters(function: ScheduleFunction) -> tuple[str, ...]:
    _, *others = inspect.signature(function).parameters.values()
    return tuple(p.name for p in others if not inspect.isroutine(p.default))


def no_obstacle(_: int) -> None:
    """No number of ranks is an obstacle."""


def fits(_: int, __: Mapping[str, Any]) -> None:
    """No parameters in their ranges are an obstacle."""


def one_lane(_: int, __: Mapping[str, Any]) -> int:
    """No two schedules run together."""
    return 1


class Algorithm(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    collective, name : str
        Its collective and its name.
    function : callable
        The generator function of its steps.
    parameters : tuple of pairs
        Its default parameters, by their names.
    size_obstacle : callable
        Returns the reason why it cannot run with a number of ranks, or None.
    keeps_rank_order : bool
        Whether all contributions to a result are combined at once in the order of the
        ranks, so that the result is the same whatever the size and the topology.
    hierarchical : bool
        Whether it is for machines of several levels, as hosts with several ranks.
    parameters_for_counts : callable, optional
        Returns the parameters that follow from the bytes of all blocks.
    unproved : bool
        Whether no test of the library proves it, so that it is proved at its first use.
    ranges : tuple of pairs
        The ranges of its parameters, by their names; others may have any value.
    lane_count : callable
        Returns the largest number of lanes between two ranks, without ``lanes``.
    unfit : callable
        Returns the reason why parameters in their ranges do not suit each other.
    by_name : bool
        Whether it runs only if it is named, so that the selection leaves it out.
    given : tuple of str
        The parameters that its name shows.
    """

    collective: str
    name: str
    function: ScheduleFunction
    parameters: tuple[tuple[str, Any], ...] = ()
    size_obstacle: Callable[[int], str | None] = no_obstacle
    keeps_rank_order: bool = False
    hierarchical: bool = False
    parameters_for_counts: Callable[[Sequence[int]], dict[str, Any]] | None = None
    unproved: bool = False
    ranges: tuple[tuple[str, Range], ...] = tuple(COMMON.items())
    lane_count: LaneCount = one_lane
    unfit: Unfit = fits
    by_name: bool = False
    given: tuple[str, ...] = ()

    @property
    def base_name(self) -> str:
        """The name without parameters."""
        return self.name.partition("(")[0]

    @property
    def of_library(self) -> bool:
        """Whether its schedule is one of the library, not of a user or a file."""
        module: str | None = getattr(self.function, "__module__", None)
        return (module or "").startswith("collalgo.algorithms.")

    @property
    def summary(self) -> str:
        """The algorithm in one sentence."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def schedule(self, group: Group, **parameters: Any) -> Steps:
        """The steps with these parameters and those of the row.

        ``lanes`` is the number of parts of the data that run together, ``segments`` the
        number of parts of each that run as a pipeline; ``order`` lists the
        ranks in the order of the algorithm's positions.
        """
        row = self._with(self.checked(parameters)) if parameters else self
        if row.parameters and (obstacle := row.obstacle(group.size)):
            raise AlgorithmNotApplicable(
                f"{self.collective}: {self.name}: {obstacle}",
                collective=self.collective,
            )
        return row._steps(group)

    def _steps(self, group: Group) -> Steps:
        """The steps with the parameters of the row."""
        chosen = dict(self.parameters)
        segments, lanes = chosen.pop("segments", 1), chosen.pop("lanes", 1)
        order = chosen.pop("order", None)
        if order is not None:
            group = self._in_order(group, order)

        def pipelined(part: Group) -> Steps:
            if segments == 1:
                return self.function(part, **chosen)
            pieces = self._cut(part, segments)
            return pipeline(*(self.function(piece, **chosen) for piece in pieces))

        if lanes == 1:
            return pipelined(group)
        return together(*map(pipelined, self._cut(group, lanes)))

    def _in_order(self, group: Group, order: Sequence[int]) -> Group:
        """The group in an order of ranks, rotated to the root if there is one."""
        if COLLECTIVES[self.collective].rooted:
            first = list(order).index(group.peer(0))
            order = [*order[first:], *order[:first]]
        return group.reordered([group.position(rank) for rank in order])

    def _cut(self, group: Group, count: int) -> list[Group]:
        """Cut the chunks of a group: each block if blocks matter, else the whole."""
        if count == 1:
            return [group]
        owned = COLLECTIVES[self.collective].blocks
        return group.segments(count) if owned else group.shares(count)

    def obstacle(self, size: int) -> str | None:
        """Why the row cannot run with ``size`` ranks and parameters, or None."""
        if obstacle := self.size_obstacle(size):
            return obstacle
        if not self.parameters:
            return None
        remembered = self._is_remembered(dict(self.parameters))
        return (_remembered_obstacle if remembered else _obstacle)(self, size)

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in their normal form.

        Raises
        ------
        AlgorithmNotApplicable
            If it has no such parameter, or a value is out of its range.
        """
        ranges, known = dict(self.ranges), self.known
        found = {}
        for name, value in parameters.items():
            if name not in known:
                raise self._refusal(
                    f"has no parameter {name!r}; it has {', '.join(known)}"
                )
            try:
                found[name] = ranges[name].checked(value) if name in ranges else value
            except (TypeError, ValueError, OverflowError):
                raise self._refusal(
                    f"needs {name} to be {ranges[name].words}, not {value!r:.80}"
                ) from None
        if found.get("order") and COLLECTIVES[self.collective].prefix:
            raise self._refusal("always combines in the order of ranks; pass no order")
        return found

    @property
    def known(self) -> tuple[str, ...]:
        """The names of all its parameters."""
        return (*own_parameters(self.function), *COMMON)

    def _refusal(self, why: str) -> AlgorithmNotApplicable:
        return AlgorithmNotApplicable(
            f"{self.collective}: {self.name} {why}", collective=self.collective
        )

    def with_parameters(self, parameters: Mapping[str, Any]) -> "Algorithm":
        """The row with other parameters, which its name shows.

        Raises
        ------
        AlgorithmNotApplicable
            If it has no such parameter, or a value is out of its range.
        """
        checked = self.checked(parameters)
        named = {k: v for k, v in self.parameters if k in self.given} | checked
        values = ", ".join(f"{k}={v!r}" for k, v in named.items())
        name = f"{self.base_name}({values})"  # tells True from 1, unlike their hashes
        if self._is_remembered(checked):
            return _named(self, name, tuple(checked.items()), tuple(named))
        return self._with(checked)._replace(name=name, given=tuple(named))

    def _is_remembered(self, parameters: Mapping[str, Any]) -> bool:
        """Whether caches keep the row with some parameters.

        All values must be hashable, and the schedule a function: an object, as of a
        synthesised schedule, may have plans of megabytes.
        """
        try:
            hash(tuple(parameters.values()))
        except TypeError:
            return False
        return inspect.isfunction(self.function)

    def _with(self, parameters: Mapping[str, Any]) -> "Algorithm":
        """The row with other parameters under the same name."""
        merged = {**dict(self.parameters), **parameters}
        return self._replace(
            parameters=tuple(merged.items()), parameters_for_counts=None, unproved=True
        )


@lru_cache(maxsize=1024)
def _named(
    row: Algorithm,
    name: str,
    parameters: tuple[tuple[str, Any], ...],
    given: tuple[str, ...],
) -> Algorithm:
    """The cached row of a name, which also keeps its proofs."""
    return row._with(dict(parameters))._replace(name=name, given=given)


@lru_cache(maxsize=1024)
def _remembered_obstacle(row: Algorithm, size: int) -> str | None:
    return _obstacle(row, size)


def _obstacle(row: Algorithm, size: int) -> str | None:
    """Why parameters do not suit the number of ranks or each other, or None."""
    given = dict(row.parameters)
    for name, allowed in row.ranges:
        if name in given and (why := allowed.obstacle(given[name], size)):
            return why
    return row.unfit(size, given) or _too_much(row, size, given)


def _too_much(row: Algorithm, size: int, given: Mapping[str, Any]) -> str | None:
    """The reason why there would be too many pieces or lanes, or None."""
    segments, lanes = given.get("segments", 1), given.get("lanes", 1)
    pieces = segments * lanes * given.get("blocks", 1)
    if row.unproved and pieces * size > MANY and pieces > FEW_PIECES:
        return (
            f"{pieces} pieces of the data for each of {size} ranks are more than "
            f"{MANY} in all; choose fewer segments, blocks or lanes"
        )
    own = row.lane_count(size, given)
    needed = own * (2 if segments > 1 else 1) * lanes
    if needed > LANES:
        return (
            f"{needed} lanes would be needed between two ranks but there are only "
            f"{LANES} ({own} of its own, 2 of each for segments, times lanes={lanes}); "
            "choose fewer"
        )
    return None
