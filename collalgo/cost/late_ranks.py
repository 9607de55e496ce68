"""Ranks that come late to a call: steps of the others only do not wait for them."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from collalgo.base.arguments import shown, wrong_type
from collalgo.base.integers import rank_of
from collalgo.base.units import human_time
from collalgo.cost.messages import Messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.transfers import Reals


def checked_late(
    late: Mapping[int, float] | None, size: int, model: str, caller: str = "simulate"
) -> dict[int, float]:
    """The delay of each late rank in seconds; empty without late ranks.

    The time starts when the last rank arrives, so if all are late, the first to arrive
    is on time, and the others are late by less.

    Raises
    ------
    TypeError, ValueError
        If it maps no ranks to seconds, or a rank or its seconds are out of range.
    TopologyError
        With late ranks, for models without steps.
    """
    if late is None:
        return {}
    if not isinstance(late, Mapping):
        advice = "the seconds of each late rank, as {2: 0.01}"
        raise wrong_type(caller, "late", late, advice)
    if late and model != "rounds":
        raise TopologyError(f"late ranks are for the model rounds, not for {model}")
    delays = {
        rank_of(rank, "late rank", caller, size): _seconds(rank, seconds, caller)
        for rank, seconds in late.items()
    }
    first = min(delays.values()) if len(delays) == size else 0.0
    return {rank: delay - first for rank, delay in delays.items() if delay > first}


def _seconds(rank: int, given: Any, caller: str) -> float:
    """The delay of a rank, which must be a finite number from 0."""
    text = f"{caller}: late rank {shown(rank)} comes after {shown(given)}"
    if isinstance(given, bool) or not isinstance(given, Real):
        kind = type(given).__name__
        raise TypeError(f"{text}, of type {kind}; pass a number of seconds")
    try:
        seconds = float(given)
    except OverflowError:  # of an integer or a fraction
        seconds = np.inf
    if not 0 <= seconds < np.inf:
        raise TopologyError(f"{text} s; pass seconds from 0")
    return seconds


def last_of(late: Mapping[int, float]) -> int:
    """The late rank that arrives last; of several at once the lowest."""
    return max(sorted(late), key=late.__getitem__)


def described(late: Mapping[int, float]) -> str:
    """The late ranks in words, and when the time of their call starts."""
    each = ", ".join(f"rank {i} by {human_time(late[i])}" for i in sorted(late))
    return f"late: {each}; the time starts when rank {last_of(late)} arrives"


def seconds_after_arrival(
    placement: Placement,
    schedule: ScheduleFunction,
    steps: Sequence[float],
    late: Mapping[int, float],
    root: int = 0,
) -> float:
    """The seconds from the arrival of the last rank to the end of a schedule.

    A step begins after the one before, and after all its ranks have arrived.

    Parameters
    ----------
    placement
        The device of each rank.
    schedule
        The function of a group.
    steps
        The seconds of each step.
    late
        The delay of each late rank in seconds.
    root
        The rank of the root.
    """
    messages = placement.messages(schedule, root)
    now, arrival = _arrivals(messages, len(steps), late)
    for seconds, earliest in zip(steps, arrival.tolist(), strict=True):
        now = max(now, earliest) + seconds
    return max(now, 0.0)


def _arrivals(
    messages: Messages, steps: int, late: Mapping[int, float]
) -> tuple[float, Reals]:
    """The begin of a call, and the latest arrival of the ranks of each step.

    Both are relative to the arrival of the last rank: long delays cost no precision.
    """
    latest = late[last_of(late)]
    arrival = np.full(steps, -latest)
    for rank, delay in late.items():
        mine = messages.step[messages.rank == rank]
        arrival[mine] = np.maximum(arrival[mine], delay - latest)
    return -latest, arrival


class LatePrice:
    """The price of a schedule from the arrival of its last rank on.

    Parameters
    ----------
    placement
        The device of each rank.
    messages
        The messages of all ranks.
    late
        The delay of each late rank in seconds.
    buffers
        The number of buffers whose bytes the schedule moves.
    """

    def __init__(
        self,
        placement: Placement,
        messages: Messages,
        late: Mapping[int, float],
        buffers: int,
    ):
        self._rounds, self._buffers = rounds(messages, placement.routes), buffers
        steps = len(self._rounds.latency)
        self._begin, self._arrival = _arrivals(messages, steps, late)

    @property
    def caveat(self) -> str:
        """The caveat of the price: "assumed" or ""."""
        return self._rounds.line.caveat

    def seconds(self, nbytes: Any) -> Any:
        """The price of a number of bytes, or of an array of such numbers."""
        whole = np.asarray(nbytes, float) * self._buffers
        now = np.full(whole.shape, self._begin)
        steps = self._rounds.latency, self._rounds.per_byte, self._arrival
        for latency, per_byte, earliest in zip(*steps, strict=True):
            now = np.maximum(now, earliest) + latency + per_byte * whole
        return np.maximum(now, 0.0)
