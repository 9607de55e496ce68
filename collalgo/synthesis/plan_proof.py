"""The proof of a plan along trees, unit by unit, also of a thousand ranks.

Each unit of a buffer is combined along a tree to its root, or sent along a tree from
it, or both in turn; units do not touch each other's data. So a plan is right if for
every unit each rank but the root sends its sum once, after all others have been
combined with it, and receives the result once, before it sends that on. Ranks run
messages: each has to be of one kind, and those that a rank combines in a step need the
same units. All that takes a few operations for each transfer, where the prover of
schedules compares symbolic values.

Where transfers represent all that they turn into, units that turn into each other are
right together: those that are represented are proved. Messages are compared at the
ranks that represent others, with all transfers that turn into some of these.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.turning import Turning
from collalgo.errors import ScheduleError
from collalgo.schedule.transfers import Ints
from collalgo.synthesis.plan import LANES, Plan

#: The collectives along trees: whether units are combined, and whether they are sent.
ALONG_TREES = {
    "allgather": (False, True),
    "reduce_scatter": (True, False),
    "allreduce": (True, True),
    "broadcast": (False, True),
    "reduce": (True, False),
}

#: The step of a rank that has had data from the beginning, and that of one without.
FIRST, NEVER = -1, np.iinfo(np.int64).max


def prove_plan(
    plan: Plan, collective: str, root: int = 0, turning: Turning | None = None
) -> None:
    """Prove a plan along trees, maybe without what its transfers turn into.

    Raises
    ------
    ScheduleError
        If it is wrong, or has numbers out of range.
    """
    turning = turning or Turning.nothing(plan.size)
    _check_turns(plan, collective, turning)
    _check_ranges(plan, collective)
    at_lowest, units = plan.to_lowest(turning), _represented_units(plan, turning)
    _check_kinds(at_lowest, collective)
    reduces, ends = plan.transfers.reduces, []
    for is_used, way in zip(ALONG_TREES[collective], (reduces, ~reduces), strict=True):
        if is_used:
            found = _Way(plan, collective, way, units, towards=way is reduces)
            ends.append(found.ends())
        elif way.any():
            raise ScheduleError(f"{collective}: some transfers are of another kind")
    _check_joint(at_lowest, collective)
    _check_ends(ends, _roots(plan, collective, root)[units], collective)


def _check_turns(plan: Plan, collective: str, turning: Turning) -> None:
    """Check that the units of a plan turn into all others, and so do their roots.

    The units of one buffer turn into equally many, whose roots are turned, too.
    """
    units = plan.blocks.units
    if len(units) == plan.size and (units != units[turning.first]).any():
        raise ScheduleError(f"{collective}: a block turns into one of other units")
    if len(units) > 1 or turning.count == 1:
        return
    if collective != "allreduce":
        raise ScheduleError(f"{collective}: units turn, but their root does not")
    if units[0] % turning.count:
        raise ScheduleError(
            f"{collective}: {units[0]} units do not turn into each other "
            f"by {turning.count} turns"
        )


def _check_ends(
    ends: Sequence[tuple[Ints, Ints]], roots: Ints, collective: str
) -> None:
    """Check the roots of all units, and that they are combined before they are sent."""
    for found, _ in ends:
        if ((found != roots) & (roots >= 0)).any():
            raise ScheduleError(f"{collective}: a unit has another root")
    if len(ends) == 2:
        (before, last), (after, first) = ends
        if (before != after).any() or (last >= first).any():
            raise ScheduleError(f"{collective}: a unit is sent before it is combined")


def _check_ranges(plan: Plan, collective: str) -> None:
    """Check that the numbers of a plan are within their ranges.

    A plan has no step without a transfer, so fewer steps than transfers or as many.
    """
    source, target, block, unit, _ = plan.transfers
    blocks = plan.blocks.number
    units = np.append(plan.blocks.units, 0)[np.clip(block, 0, blocks)]
    ranges: dict[str, tuple[Ints, Ints | int]] = {
        "source": (source, plan.size),
        "target": (target, plan.size),
        "block": (block, blocks),
        "unit": (unit, units),
        "step": (plan.step, len(plan.step)),
        "lane": (plan.lane, LANES),
    }
    for name, (column, end) in ranges.items():
        if (wrong := (column < 0) | (column >= end)).any():
            found = int(column[wrong.argmax()])
            raise ScheduleError(f"{collective}: there is no {name} {found}")


def _check_kinds(plan: Plan, collective: str) -> None:
    """Check that all transfers of a message are combined, or all copied."""
    source, target, _, _, reduces = plan.transfers
    message = (
        (plan.step * plan.size + source) * plan.size + target
    ) * LANES + plan.lane
    order = np.argsort(message, kind="stable")
    is_same = np.diff(message[order]) == 0
    mixed = is_same & (reduces[order][1:] != reduces[order][:-1])
    if mixed.any():
        which = order[mixed.argmax()]
        raise ScheduleError(
            f"{collective}: the message from rank {source[which]} to {target[which]} "
            f"of step {plan.step[which]} and lane {plan.lane[which]} is in part "
            "combined and in part copied"
        )


def _represented_units(plan: Plan, turning: Turning) -> Ints:
    """The units that represent those of all blocks, by their numbers among all."""
    units = plan.blocks.units
    if len(units) == 1:
        return np.arange(units[0] // turning.count)
    is_lowest = turning.first == np.arange(plan.size)
    return np.flatnonzero(np.repeat(is_lowest, units))


def _roots(plan: Plan, collective: str, root: int) -> Ints:
    """The root of each unit; -1 for any."""
    if plan.blocks.number == plan.size:
        return np.repeat(np.arange(plan.size), plan.blocks.units)
    anywhere = collective == "allreduce"
    return np.full(int(plan.blocks.units.sum()), -1 if anywhere else root)


def _check_joint(plan: Plan, collective: str) -> None:
    """Check that messages of a step that are combined have the same units.

    Of the messages with a unit the first represents them all: each has as many units as
    that one, and no units that others represent.
    """
    way = np.flatnonzero(plan.transfers.reduces)
    if not len(way):
        return
    of, step, lane = plan.transfers, plan.step[way], plan.lane[way]
    source, target = of.source[way], of.target[way]
    message = _numbers(step, target, source, lane)
    where = _numbers(step, target, of.block[way], of.unit[way])
    first = np.full(where.max() + 1, len(way))
    np.minimum.at(first, where, message)
    represents = first[where]
    size = np.bincount(message)
    least, most = np.full_like(size, len(way)), np.full_like(size, -1)
    np.minimum.at(least, message, represents)
    np.maximum.at(most, message, represents)
    if (size[least] != size).any() or (least != most).any():
        raise ScheduleError(f"{collective}: unequal messages are combined in a step")


def _numbers(*columns: Ints) -> Ints:
    """A number for each entry of some columns, the same for equal entries."""
    found = np.unique(np.stack(columns), axis=1, return_inverse=True)[1]
    return found.ravel().astype(np.int64)


class _Way:
    """The transfers of all units towards their roots, or from them.

    Transfers towards the roots are those from them in the reverse order of steps.
    """

    def __init__(
        self,
        plan: Plan,
        collective: str,
        way: NDArray[np.bool_],
        units: Ints,
        towards: bool,
    ):
        source, target, block, unit, _ = (column[way] for column in plan.transfers)
        first = np.cumsum(plan.blocks.units) - plan.blocks.units
        number = np.full(int(plan.blocks.units.sum()), -1)
        number[units] = np.arange(len(units))
        self._unit, self._collective = number[first[block] + unit], collective
        if (self._unit < 0).any():
            raise ScheduleError(f"{collective}: a unit turns into one of the plan")
        self._near, self._far = (target, source) if towards else (source, target)
        step = plan.step[way]
        self._step = plan.steps - 1 - step if towards else step
        self._shape = len(units), plan.size
        self._steps, self._towards = plan.steps, towards

    def ends(self) -> tuple[Ints, Ints]:
        """The root of each unit, and the step of its first transfer from it.

        Of transfers towards the root it is the step of the last.
        """
        arrival = self._arrivals()
        has = arrival[self._unit, self._near] < self._step
        if not has.all():
            self._refuse(int(np.argmin(has)), "has no such data yet")
        root = arrival.argmin(axis=1)
        found = np.full(self._shape[0], self._steps)
        of_root = root[self._unit] == self._near
        np.minimum.at(found, self._unit[of_root], self._step[of_root])
        return root, self._steps - 1 - found if self._towards else found

    def _arrivals(self) -> Ints:
        """The step in which each rank receives each unit; each does once but one."""
        counts = np.zeros(self._shape, np.int64)
        np.add.at(counts, (self._unit, self._far), 1)
        if (twice := counts[self._unit, self._far] > 1).any():
            self._refuse(int(twice.argmax()), "has a unit twice")
        if ((counts == 0).sum(axis=1) != 1).any():
            raise ScheduleError(f"{self._collective}: some rank has no part in a unit")
        arrival = np.where(counts, NEVER, FIRST)
        arrival[self._unit, self._far] = self._step
        return arrival

    def _refuse(self, which: int, why: str) -> None:
        """Raise the error of a transfer."""
        raise ScheduleError(
            f"{self._collective}: unit {self._unit[which]} from rank "
            f"{self._near[which]} to {self._far[which]}: a rank {why}"
        )
