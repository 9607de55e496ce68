"""The round-synchronous price of a schedule: alpha, beta, gamma and link loads.

All ranks begin a step together. A step takes the longest latency of its messages, a gap
for each further message of the busiest rank, the busy time of the most loaded link, the
reductions of the busiest rank, and the work of processors for bytes between hosts. All
but the latencies are proportional to the bytes, so the price of each step and of a
schedule is linear in the bytes. Where all hosts share some cores, these do the work of
all ranks.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from collalgo._kernels.cost.loads import largest_sums, seconds_of
from collalgo.cost.messages import NOTHING, Messages, joined
from collalgo.cost.routing import LinkLoads, Routing
from collalgo.schedule.transfers import Ints, Reals
from collalgo.topology.assumed import ASSUMED


class Line(NamedTuple):
    """A price linear in the bytes: the latency, and the seconds per byte.

    ``assumed`` states whether the bytes cross links with assumed speeds.
    """

    latency: float
    per_byte: float
    assumed: bool = False

    @property
    def caveat(self) -> str:
        """The caveat of the price: "assumed" or ""."""
        return ASSUMED if self.assumed else ""

    def seconds(self, nbytes: Any) -> Any:
        """The price of a number of bytes, or of an array of such numbers."""
        return self.latency + self.per_byte * nbytes

    def then(self, other: "Line") -> "Line":
        """The price of two schedules, one after the other."""
        both = self.latency + other.latency, self.per_byte + other.per_byte
        return Line(*both, self.assumed or other.assumed)

    def over(self, buffers: int) -> "Line":
        """The same price over the bytes of one of several buffers."""
        return self._replace(per_byte=self.per_byte * buffers)

    def at_least(self, per_byte: float) -> "Line":
        """The same price with a floor of the seconds per byte."""
        return self._replace(per_byte=max(self.per_byte, per_byte))


class Rounds(NamedTuple):
    """The priced steps of a schedule on a machine.

    Attributes
    ----------
    latency, per_byte : ndarray
        The price of each step: seconds without bytes, and seconds per byte of the
        buffer.
    bottleneck : ndarray
        The most loaded directed link of each step, -1 in a step without messages.
    busy : ndarray
        The busy time of each directed link over all steps, in seconds per byte of the
        buffer.
    routes : Routing
        The routes, which resolve the numbers of directed links.
    """

    latency: Reals
    per_byte: Reals
    bottleneck: Ints
    busy: Reals
    routes: Routing

    @property
    def line(self) -> Line:
        """The price of all steps together."""
        assumed = bool(self.busy[self.routes.assumed].any())
        return Line(float(self.latency.sum()), float(self.per_byte.sum()), assumed)


def rounds(
    messages: Messages,
    routes: Routing,
    segments: int = 1,
    unfold: Callable[[Messages], Messages] = lambda messages: messages,
) -> Rounds:
    """Price all steps one by one.

    Parameters
    ----------
    messages
        The messages of all ranks, of the ranks that the routes are folded to, or of
        some ranks.
    routes
        The routes of the machine, and the other costs of a message.
    segments
        The number of pipelined segments, each one step after the previous one.
    unfold
        Derives the messages of all ranks from those of the representatives.
    """
    if segments > 1 or routes.link_model.turning:  # steps depend on each other
        return _priced(unfold(messages), np.ones(messages.steps), routes, segments)
    distinct, which = messages.distinct_steps()
    times = np.bincount(which).astype(np.float64)
    found = _priced(unfold(distinct), times, routes)
    return found._replace(
        latency=found.latency[which],
        per_byte=found.per_byte[which],
        bottleneck=found.bottleneck[which],
    )


def _priced(
    messages: Messages, times: Reals, routes: Routing, segments: int = 1
) -> Rounds:
    """Price steps, each of which occurs a number of times."""
    sends = messages.sends
    pipeline = Pipeline(len(times), segments)  # whose last step may have no messages
    latencies, loads = routes.link_loads(sends.rank, sends.peer)
    step, seconds, busy = seconds_of(
        *loads, sends.step, sends.share, times, routes.speed
    )
    per_byte, bottleneck = pipeline.largest(step, loads.link, seconds)
    per_byte /= segments
    per_byte = _slowed(per_byte, step, loads.link, sends, pipeline, routes)
    far = _between_hosts(sends, loads, routes)
    work = _work(messages.reductions, far, pipeline, routes)
    per_byte = per_byte + work / segments
    latency = _step_latencies(sends, latencies, pipeline, routes)
    latency += _network_gaps(far, pipeline, routes)
    return Rounds(latency, per_byte, bottleneck, busy, routes)


def _slowed(
    per_byte: Reals,
    step: Ints,
    link: Ints,
    sends: Messages,
    pipeline: "Pipeline",
    routes: Routing,
) -> Reals:
    """The seconds per byte of steps whose links are crowded, or whose ranks turn."""
    model = routes.link_model
    if model.crowding:
        flows, _ = pipeline.largest(step, link, routes.in_network(link))
        others = 1 - 1 / np.maximum(flows, 1)  # the fraction of other messages
        per_byte = per_byte * (1 + model.crowding * others)
    if model.turning and pipeline.segments == 1:
        per_byte = per_byte * (1 + model.turning * _turns(sends, pipeline.steps))
    return per_byte


def _work(
    sums: Messages, far: Messages, pipeline: "Pipeline", routes: Routing
) -> Reals:
    """The seconds per byte of processors in each step, for sums and between hosts."""
    model, seconds = routes.link_model, np.zeros(pipeline.all)
    if model.network_byte:
        copied = _busiest(*_ends(far), pipeline, routes)
        seconds += model.network_byte * copied
    if model.reduction:
        reduced = _busiest(sums.step, sums.rank, sums.share, pipeline, routes)
        seconds += model.reduction * reduced
    return seconds


def _busiest(
    step: Ints, rank: Ints, work: Reals, pipeline: "Pipeline", routes: Routing
) -> Reals:
    """The work of the busiest rank in each step, or of the cores that all share."""
    most, _ = pipeline.largest(step, routes.representatives(rank), work)
    if cores := routes.link_model.shared_cores:
        of_all, _ = pipeline.largest(step, np.zeros_like(step), work)
        most = np.maximum(most, of_all / cores)
    return most


def _between_hosts(sends: Messages, loads: LinkLoads, routes: Routing) -> Messages:
    """The messages between hosts; none if they cost no more than others."""
    model = routes.link_model
    if model.network_message is None and not model.network_byte:
        return NOTHING
    network = routes.in_network(loads.link) > 0
    return sends.where(np.unique(loads.message[network]))


def _ends(messages: Messages) -> tuple[Ints, Ints, Reals]:
    """The step and the rank of both ends of messages, and half the share of each."""
    ranks = np.concatenate([messages.rank, messages.peer])
    return np.tile(messages.step, 2), ranks, np.tile(messages.share / 2, 2)


def _network_gaps(far: Messages, pipeline: "Pipeline", routes: Routing) -> Reals:
    """What the further messages between hosts take longer in each step than others."""
    model = routes.link_model
    if model.network_message is None:
        return np.zeros(pipeline.all)
    step, rank, _ = _ends(far)
    messages = _busiest(step, rank, np.full(len(step), 0.5), pipeline, routes)
    longer = model.network_message - model.message
    gaps: Reals = longer * np.maximum(messages - 1, 0)
    return gaps


def _step_latencies(
    sends: Messages, latencies: Reals, pipeline: "Pipeline", routes: Routing
) -> Reals:
    """The longest latency of each step, and the gaps of its busiest rank."""
    latency = np.zeros(pipeline.steps)
    np.maximum.at(latency, sends.step, latencies)
    sent, received = (
        pipeline.largest(sends.step, routes.representatives(ranks))[0]
        for ranks in (sends.rank, sends.peer)
    )
    gaps: Reals = np.maximum(np.maximum(sent, received) - 1, 0)
    return pipeline.longest(latency) + routes.link_model.message * gaps


def lines(
    schedules: Sequence[Messages], routes: Routing, segments: int = 1
) -> list[Line]:
    """The prices of several schedules, computed together because that is faster.

    They are priced as one schedule with a step without messages between any two.
    """
    lasts = [schedule.steps + segments - 1 for schedule in schedules]
    starts = [0, *accumulate(last + 1 for last in lasts)]
    late = [
        schedule._replace(step=schedule.step + start)
        for schedule, start in zip(schedules, starts, strict=False)
    ]
    found = rounds(joined(late), routes, segments)
    return [
        Line(
            float(found.latency[start : start + last].sum()),
            float(found.per_byte[start : start + last].sum()),
        )
        for start, last in zip(starts, lasts, strict=False)
    ]


def _turns(sends: Messages, steps: int) -> Reals:
    """For each step whether some rank changes its peer from the step before.

    The first step, and a step after one without messages, count as unchanged.
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
    """Pipelined segments of a schedule: those that are active in each step.

    Parameters
    ----------
    steps
        The number of steps of one segment.
    segments
        The number of segments.
    """

    def __init__(self, steps: int, segments: int):
        self.steps, self.segments = steps, segments
        self.all = steps + segments - 1 if steps else 0

    def longest(self, values: Reals) -> Reals:
        """The greatest value over the active segments of each step."""
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
        """The largest sum over the columns of each step, and that column.

        A step without entries has 0 in column -1.
        """
        return largest_sums(step, column, weights, self.steps, self.segments)
