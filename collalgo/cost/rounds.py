"""The round-synchronous price of a schedule: alpha, beta, gamma, with loads of links.

All ranks begin a step together. A step takes the longest latency of its messages, a gap
for each further message of the busiest rank, the time of the link that its bytes keep
busy longest, and what the busiest rank reduces. All but the latencies grow with the
bytes, so the price of a schedule is a straight line, and so is that of every step.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from collalgo._kernels.cost.loads import largest_sums, seconds_of
from collalgo.cost.messages import Messages, joined
from collalgo.cost.routing import Map
from collalgo.schedule.transfers import Ints, Reals


class Line(NamedTuple):
    """A price that grows with the bytes: at none, and for each."""

    latency: float
    per_byte: float

    def seconds(self, nbytes: Any) -> Any:
        """The price of so many bytes, or of an array of such numbers."""
        return self.latency + self.per_byte * nbytes

    def over(self, buffers: int) -> "Line":
        """The same price over the bytes of one of so many buffers."""
        return Line(self.latency, self.per_byte * buffers)

    def at_least(self, per_byte: float) -> "Line":
        """The same price, with no less for each byte."""
        return Line(self.latency, max(self.per_byte, per_byte))


class Rounds(NamedTuple):
    """The steps of a schedule on a machine.

    Attributes
    ----------
    latency, per_byte : ndarray
        The price of each step: seconds without bytes, and for each byte of the buffer.
    way : ndarray
        The way that is busy longest in each step, -1 where nothing is sent.
    busy : ndarray
        Seconds for each byte of the buffer that each way is busy, over all steps.
    roads : Map
        What the numbers of the ways mean.
    """

    latency: Reals
    per_byte: Reals
    way: Ints
    busy: Reals
    roads: Map

    @property
    def line(self) -> Line:
        """The price of all steps together."""
        return Line(float(self.latency.sum()), float(self.per_byte.sum()))


def rounds(
    messages: Messages,
    roads: Map,
    segments: int = 1,
    everyone: Callable[[Messages], Messages] = lambda theirs: theirs,
) -> Rounds:
    """Price all steps, one after the other.

    Parameters
    ----------
    messages
        Of all ranks, of those for which the roads are folded, or of some.
    roads
        The ways of the machine, and what else messages cost.
    segments
        In so many parts the schedule runs, each a step after the one before.
    everyone
        Tells the messages of all from those of some.
    """
    if segments > 1 or roads.figures.turning:  # then a step is not priced by itself
        return _priced(everyone(messages), np.ones(messages.steps), roads, segments)
    distinct, which = messages.distinct_steps()
    times = np.bincount(which).astype(np.float64)
    found = _priced(everyone(distinct), times, roads)
    return found._replace(
        latency=found.latency[which],
        per_byte=found.per_byte[which],
        way=found.way[which],
    )


def _priced(messages: Messages, times: Reals, roads: Map, segments: int = 1) -> Rounds:
    """Price steps, each of which occurs so many times."""
    sends, sums = messages.sends, messages.reductions
    steps = len(times)  # of which nobody may send anything in the last
    pipeline = Pipeline(steps, segments)
    latencies, legs = roads.trips(sends.rank, sends.peer)
    step, seconds, busy = seconds_of(*legs, sends.step, sends.share, times, roads.speed)
    per_byte, way = pipeline.largest(step, legs.way, seconds)
    per_byte /= segments
    latency = np.zeros(steps)
    np.maximum.at(latency, sends.step, latencies)
    latency = pipeline.longest(latency)
    sent, _ = pipeline.largest(sends.step, roads.place(sends.rank))
    received, _ = pipeline.largest(sends.step, roads.place(sends.peer))
    latency += roads.figures.message * np.maximum(np.maximum(sent, received) - 1, 0)
    if roads.figures.crowding:
        flows, _ = pipeline.largest(step, legs.way, roads.in_network(legs.way))
        others = 1 - 1 / np.maximum(flows, 1)  # their part of the messages on the link
        per_byte = per_byte * (1 + roads.figures.crowding * others)
    if roads.figures.turning and segments == 1:
        per_byte = per_byte * (1 + roads.figures.turning * _turns(sends, steps))
    if roads.figures.reduction:
        work, _ = pipeline.largest(sums.step, roads.place(sums.rank), sums.share)
        per_byte = per_byte + roads.figures.reduction / segments * work
    return Rounds(latency, per_byte, way, busy, roads)


def lines(schedules: Sequence[Messages], roads: Map, segments: int = 1) -> list[Line]:
    """The prices of several schedules, found at once: that takes less time.

    They are priced as one in which nobody sends anything between two of them.
    """
    lasts = [schedule.steps + segments - 1 for schedule in schedules]
    starts = [0, *accumulate(last + 1 for last in lasts)]
    late = [
        schedule._replace(step=schedule.step + start)
        for schedule, start in zip(schedules, starts, strict=False)
    ]
    found = rounds(joined(late), roads, segments)
    return [
        Line(*(float(each[start : start + last].sum()) for each in found[:2]))
        for start, last in zip(starts, lasts, strict=False)
    ]


def _turns(sends: Messages, steps: int) -> Reals:
    """For each step whether some rank sends to another than in the step before.

    After a step in which nobody sends anything there is nothing to turn from.
    """
    turns = np.zeros(steps)
    if not len(sends.step):
        return turns
    ranks = int(max(sends.rank.max(), sends.peer.max())) + 1
    pair = sends.rank * ranks + sends.peer
    before = sends.step - 1
    known = np.isin(before * ranks**2 + pair, sends.step * ranks**2 + pair)
    turns[sends.step[~known & np.isin(before, sends.step)]] = 1
    return turns


class Pipeline:
    """Segments of a schedule that run staggered: what is under way in each step.

    Parameters
    ----------
    steps
        Of one segment.
    segments
        How many there are.
    """

    def __init__(self, steps: int, segments: int):
        self.steps, self.segments = steps, segments
        self.all = steps + segments - 1 if steps else 0

    def longest(self, values: Reals) -> Reals:
        """The greatest value over the segments that are under way."""
        if self.segments == 1 or not self.steps:
            return values
        wide = np.zeros(self.all + self.segments - 1)
        wide[self.segments - 1 : self.segments - 1 + self.steps] = values
        windows = np.lib.stride_tricks.sliding_window_view(wide, self.segments)
        greatest: Reals = windows.max(axis=1)
        return greatest

    def largest(
        self, step: Ints, column: Ints, weights: Reals | None = None
    ) -> tuple[Reals, Ints]:
        """For each step the largest sum of a column, and which column has it.

        That is 0 of column -1 where there is nothing.
        """
        return largest_sums(step, column, weights, self.steps, self.segments)
