"""Templates: a schedule is lowered once, for buffers of all lengths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from collalgo.base.cache import REMEMBERED
from collalgo.engine.plan.chunk_pipelining import Slicing
from collalgo.engine.plan.layout import Grid, Region
from collalgo.engine.plan.lowering import UNSLICED, Averaging, Lowering
from collalgo.engine.plan.rows import PlanTemplate
from collalgo.errors import ScheduleError
from collalgo.schedule import ScheduleFunction, Step, Steps, trace
from collalgo.schedule.collective import (
    COLLECTIVES,
    NOTHING,
    Collective,
    Place,
    promise_of,
)

#: Parts of a buffer, at most: their numbers are of 64 bits.
MOST_PARTS = 1 << 62


@dataclass(frozen=True, repr=False)
class Bound:
    """A schedule function with arguments; unlike a partial, equal to another one."""

    function: ScheduleFunction
    arguments: tuple[Any, ...]
    parameters: tuple[tuple[str, Any], ...]

    def __call__(self, *args: Any, **more: Any) -> Steps:
        return self.function(*self.arguments, *args, **dict(self.parameters), **more)


class TemplateKey(NamedTuple):
    """All that a template depends on.

    Attributes
    ----------
    collective : str
        What the schedule performs.
    schedule : callable
        The schedule function.
    rank, size, root : int
        The rank, the number of ranks, and the root.
    averaging : Averaging
        Where complete sums are divided by the number of ranks.
    slicing : Slicing
        The slices of the plans.
    hosts : tuple of int
        The host of each rank, if they are on several.
    """

    collective: str
    schedule: ScheduleFunction
    rank: int
    size: int
    root: int = 0
    averaging: Averaging = Averaging.NO
    slicing: Slicing = UNSLICED
    hosts: tuple[int, ...] = ()

    def template(self) -> PlanTemplate:
        """The template, made once if the schedule can be hashed.

        Raises
        ------
        ScheduleError
            If the schedule uses what its rank does not have, or too many parts.
        """
        key, schedule = self, self.schedule
        if isinstance(schedule, partial):
            parameters = tuple(sorted(schedule.keywords.items()))
            bound = Bound(schedule.func, schedule.args, parameters)
            key = self._replace(schedule=bound)
        count, parts = self.slicing
        if count > 1:  # all numbers of slices have the same rows
            key = key._replace(slicing=Slicing(2, parts))
        try:
            hash(key)
        except TypeError:
            found = _lowered.__wrapped__(key)
        else:
            found = _lowered(key)
        return found if found.slices == count else replace(found, slices=count)


@lru_cache(maxsize=REMEMBERED)
def _lowered(key: TemplateKey) -> PlanTemplate:
    collective, schedule, rank, size, root, averaging, slicing, hosts = key
    steps = trace(schedule, rank, size, root)
    grid = grid_of(steps, COLLECTIVES[collective].buffer_blocks(size), slicing)
    promise = promise_of(schedule, collective)
    if promise is COLLECTIVES[collective]:
        ends = ends_of(collective, root, grid, rank, size)
    else:
        ends = ends_of_promise(promise, grid, Place.of(rank, size, root, promise))
    shared = collective == "allreduce"
    lowering = Lowering(grid, rank, size, *ends, slicing, hosts)
    return lowering.lower(steps, averaging, shared)


def grid_of(steps: Sequence[Step], blocks: int, slicing: Slicing = UNSLICED) -> Grid:
    """The coarsest grid that all chunks, blocks and slices align with."""
    cuts = {chunk.parts for step in steps for t in step for chunk in t.chunks}
    parts = lcm(blocks, slicing.parts, *cuts)
    if parts > MOST_PARTS:
        raise ScheduleError(
            f"the chunks of a schedule cut the buffer into {parts} parts; at most "
            f"{MOST_PARTS} are possible"
        )
    return Grid(parts, blocks)


def ends_of(
    collective: str, root: int, grid: Grid, rank: int, size: int
) -> tuple[Region, Region]:
    """The parts of the whole buffer in the input and in the output of a rank."""
    if collective == "alltoall":
        row = [grid.block(rank * size + i) for i in range(size)]
        column = [grid.block(i * size + rank) for i in range(size)]
        return Region(row), Region(column)
    whole, mine, nothing = Region([grid.whole]), grid.block(rank), Region([])
    at_root = whole if rank == root else nothing
    return {
        "allreduce": (whole, whole),
        "broadcast": (whole, nothing if rank == root else whole),
        "reduce": (whole, at_root),
        "allgather": (Region([mine]), whole),
        "reduce_scatter": (whole, Region([mine])),
        "gather": (Region([mine]), at_root),
        "scatter": (at_root, nothing if rank == root else Region([mine])),
        "scan": (whole, whole),
        "exscan": (whole, whole if rank else nothing),
        "barrier": (nothing, nothing),
    }[collective]


def ends_of_promise(
    promise: Collective, grid: Grid, place: Place
) -> tuple[Region, Region]:
    """The same for a schedule that performs a part of a collective."""
    before, after = (
        np.flatnonzero(np.broadcast_to(codes(place), place.blocks.shape) != NOTHING)
        for codes in (promise.before, promise.after)
    )
    given, result = (map(grid.block, blocks.tolist()) for blocks in (before, after))
    return Region(given), Region(result)


def averaging_of(collective: str, averages: bool, proved: bool) -> Averaging:
    """Where complete sums are divided.

    Parameters
    ----------
    collective
        The collective.
    averages
        Whether its sums are divided at all.
    proved
        Whether tests show that no rank that completes a sum receives it again.
    """
    if not averages:
        return Averaging.NO
    if collective != "allreduce":
        return Averaging.AT_THE_END
    return Averaging.BEFORE_SHARING if proved else Averaging.ON_EVERY_RANK
