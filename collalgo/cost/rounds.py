"""The round-synchronous price of a schedule: alpha, beta, gamma, with loads of links.

All ranks begin a step together. A step takes the longest latency of its messages, a gap
for each further message of the busiest rank, the time of the link that its bytes keep
busy longest, and what the busiest rank reduces. All but the latencies grow with the
bytes, so the price of a schedule is a straight line, and so is that of every step.
"""

from typing import Any, NamedTuple

import numpy as np

from collalgo.cost.messages import Messages
from collalgo.cost.roads import Map
from collalgo.transfers import Ints, Reals

#: Loads are kept for all pairs of a step and a way, if they are no more than this.
DENSE = 1 << 22


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


def rounds(messages: Messages, roads: Map, segments: int = 1) -> Rounds:
    """Price all steps, one after the other.

    Parameters
    ----------
    messages
        Of all ranks, or of those for which the roads are folded.
    roads
        The ways of the machine, and what else messages cost.
    segments
        In so many parts the schedule runs, each a step after the one before.
    """
    sends, sums = messages.sends, messages.reductions
    steps = messages.steps
    pipeline = Pipeline(steps, segments)
    per_byte, way, busy = _transfers(sends, roads, pipeline)
    latency = np.zeros(steps)
    np.maximum.at(latency, sends.step, roads.latency(sends.rank, sends.peer))
    sent = pipeline.most(sends.step, roads.place(sends.rank))
    received = pipeline.most(sends.step, roads.place(sends.peer))
    latency = pipeline.longest(latency)
    latency += roads.figures.message * np.maximum(np.maximum(sent, received) - 1, 0)
    if roads.figures.turning and segments == 1:
        per_byte = per_byte * (1 + roads.figures.turning * _turns(sends, steps))
    if roads.figures.reduction:
        work = pipeline.most(sums.step, roads.place(sums.rank), sums.share)
        per_byte = per_byte + roads.figures.reduction / segments * work
    return Rounds(latency, per_byte, way, busy, roads)


def _turns(sends: Messages, steps: int) -> Reals:
    """For each step whether some rank sends to another than in the step before."""
    turns = np.zeros(steps)
    if not len(sends.step):
        return turns
    ranks = int(max(sends.rank.max(), sends.peer.max())) + 1
    pair = sends.rank * ranks + sends.peer
    known = np.isin((sends.step - 1) * ranks**2 + pair, sends.step * ranks**2 + pair)
    turns[sends.step[~known & (sends.step > 0)]] = 1
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

    def total(self, table: Reals) -> Reals:
        """Sums over the segments that are under way, from rows for each step."""
        if self.segments == 1 or not self.steps:
            return table
        past = np.zeros((self.all + 1, *table.shape[1:]))
        past[1 : self.steps + 1] = np.cumsum(table, axis=0)
        past[self.steps + 1 :] = past[self.steps]
        past[self.segments :] -= past[: self.all + 1 - self.segments].copy()
        sums: Reals = past[1:]
        return sums

    def longest(self, values: Reals) -> Reals:
        """The greatest value over the segments that are under way."""
        if self.segments == 1 or not self.steps:
            return values
        wide = np.zeros(self.all + self.segments - 1)
        wide[self.segments - 1 : self.segments - 1 + self.steps] = values
        windows = np.lib.stride_tricks.sliding_window_view(wide, self.segments)
        greatest: Reals = windows.max(axis=1)
        return greatest

    def most(self, step: Ints, rank: Ints, weights: Reals | None = None) -> Reals:
        """For each step the most that a rank has of something."""
        ranks, place = np.unique(rank, return_inverse=True)
        if not len(ranks):
            return np.zeros(self.all)
        if self.segments == 1 and self.steps * len(ranks) > DENSE:
            return _most_of_sparse(step, place, self.steps, len(ranks), weights)
        cells = self.steps * len(ranks)
        counts = np.bincount(step * len(ranks) + place, weights, cells)
        table = counts.reshape(self.steps, len(ranks)).astype(np.float64)
        greatest: Reals = self.total(table).max(axis=1)
        return greatest


def _most_of_sparse(
    step: Ints, place: Ints, steps: int, width: int, weights: Reals | None
) -> Reals:
    """For each step the most that a place has, where few pairs occur."""
    most = np.zeros(steps)
    keys, index = np.unique(step * width + place, return_inverse=True)
    np.maximum.at(most, keys // width, np.bincount(index, weights, len(keys)))
    return most


def _transfers(
    sends: Messages, roads: Map, pipeline: Pipeline
) -> tuple[Reals, Ints, Reals]:
    """For each step the time of a byte and whose it is; for each way its whole time."""
    legs = roads.legs(sends.rank, sends.peer)
    seconds = sends.share[legs.message] * legs.part / roads.speed[legs.way]
    busy = np.bincount(legs.way, seconds, len(roads.speed)).astype(np.float64)
    if not len(legs.way):
        return np.zeros(pipeline.all), np.full(pipeline.all, -1), busy
    used, way = np.unique(legs.way, return_inverse=True)
    step, steps, ways = sends.step[legs.message], pipeline.steps, len(used)
    if pipeline.segments > 1 or steps * ways <= DENSE:
        load = np.bincount(step * ways + way, seconds, steps * ways)
        loads = load.reshape(steps, ways).astype(np.float64)
        table = pipeline.total(loads) / pipeline.segments
        which, most = table.argmax(axis=1), table.max(axis=1)
    else:
        keys, index = np.unique(step * ways + way, return_inverse=True)
        load = np.bincount(index, seconds, len(keys))
        order = np.argsort(load, kind="stable")
        most, which = np.zeros(steps), np.zeros(steps, np.int64)
        which[keys[order] // ways] = keys[order] % ways  # the last one stays
        most[keys[order] // ways] = load[order]
    return most, np.where(most > 0, used[which], -1), busy
