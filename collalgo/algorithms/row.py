"""A row of the table: an algorithm, with its parameters and what is known of it."""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from collalgo.collective import COLLECTIVES
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import Group, ScheduleFunction, Steps, staggered, together

#: Parameters that every algorithm has, whatever its own.
COMMON = ("segments", "lanes", "order")


@cache
def own_parameters(function: ScheduleFunction) -> tuple[str, ...]:
    """The names of the parameters that a schedule has beside the group."""
    return tuple(inspect.signature(function).parameters)[1:]


def no_obstacle(_: int) -> None:
    """No number of ranks is an obstacle."""


class Algorithm(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    collective, name : str
        What it does, and what it is called.
    function : callable
        The generator function of its steps.
    parameters : tuple of pairs
        The parameters that it has by default, by their names.
    obstacle : callable
        Says why so many ranks will not do, or gives None.
    serial : bool
        Whether all contributions to a result are combined at once in the order of the
        ranks, so that the result is the same whatever the size and the topology.
    levels : bool
        Whether it is meant for machines of several levels, as hosts with several ranks.
    sized : callable, optional
        Gives the parameters that follow from the bytes of all blocks.
    unproved : bool
        Whether no test of the library proves it, so that it is proved when it is used.
    """

    collective: str
    name: str
    function: ScheduleFunction
    parameters: tuple[tuple[str, Any], ...] = ()
    obstacle: Callable[[int], str | None] = no_obstacle
    serial: bool = False
    levels: bool = False
    sized: Callable[[Sequence[int]], dict[str, Any]] | None = None
    unproved: bool = False

    @property
    def plain(self) -> str:
        """The name without parameters."""
        return self.name.partition("(")[0]

    @property
    def story(self) -> str:
        """The algorithm in one sentence."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def schedule(self, group: Group, **parameters: Any) -> Steps:
        """The steps with these parameters, beside those of the row.

        ``lanes`` runs the algorithm on so many parts of the data side by side,
        ``segments`` on so many parts of each in a pipeline; ``order`` gives the ranks
        in the order in which the algorithm is to count them.
        """
        chosen = {**dict(self.parameters), **parameters}
        segments, lanes = chosen.pop("segments", 1), chosen.pop("lanes", 1)
        order = chosen.pop("order", None)
        if order is not None:
            group = self._in_order(group, order)

        def pipeline(part: Group) -> Steps:
            if segments == 1:
                return self.function(part, **chosen)
            pieces = self._cut(part, segments)
            return staggered(*(self.function(piece, **chosen) for piece in pieces))

        if lanes == 1:
            return pipeline(group)
        return together(*map(pipeline, self._cut(group, lanes)))

    def _in_order(self, group: Group, order: Sequence[int]) -> Group:
        """The group in an order of ranks; where there is a root, counted from it on."""
        if self.collective in ("scan", "exscan"):
            raise AlgorithmNotApplicable(
                f"{self.collective} is made in the order of the ranks; pass no order"
            )
        if sorted(order) != list(range(group.size)):
            raise AlgorithmNotApplicable(
                f"order {list(order)} must name each of the {group.size} ranks once"
            )
        if COLLECTIVES[self.collective].rooted:
            first = list(order).index(group.peer(0))
            order = [*order[first:], *order[:first]]
        return group.reordered([group.position(rank) for rank in order])

    def _cut(self, group: Group, count: int) -> list[Group]:
        """Cut what a group shares: each block if blocks matter, else the whole."""
        if count == 1:
            return [group]
        owned = COLLECTIVES[self.collective].blocks
        return group.segments(count) if owned else group.shares(count)

    def having(self, parameters: dict[str, Any]) -> "Algorithm":
        """The row with other parameters, and a name that says so."""
        known = own_parameters(self.function)
        for name in parameters:
            if name not in (*known, *COMMON):
                raise AlgorithmNotApplicable(
                    f"{self.collective}: {self.name} has no parameter {name!r}; it has "
                    + ", ".join((*known, *COMMON)),
                    collective=self.collective,
                )
        values = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        merged = {**dict(self.parameters), **parameters}
        return self._replace(
            name=f"{self.name}({values})",
            parameters=tuple(merged.items()),
            sized=None,
            unproved=True,
        )
