"""The fluid model: active messages share links max-min fairly.

A rank begins a step when its sends and receives of the step before are complete. A
message waits for its latency and then flows over all links of its route at once
(cut-through). Max-min fairness: no message can be faster without slowing down one that
is not faster.
"""

from collections import defaultdict
from heapq import heappop, heappush
from math import inf

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.cost.loads import loads_of
from collalgo.base.distinct import distinct
from collalgo.cost.messages import Messages
from collalgo.cost.routing import LinkLoads, Routing
from collalgo.schedule.transfers import Ints, Reals

#: Events closer together than this fraction of the time are simultaneous.
TOGETHER = 1e-9

STARTS, SENT, RECEIVED = range(3)


class FluidSimulation:
    """An event simulation of all ranks and messages.

    Attributes
    ----------
    sends : Messages
        The messages.
    begin, end : ndarray
        The time each message leaves its sender, and the time all of it has arrived.
    busy : ndarray
        The busy seconds of each directed link.
    """

    def __init__(self, messages: Messages, nbytes: float, routes: Routing):
        self.sends = messages.sends
        self.routes = routes
        self.nbytes = self.sends.share * nbytes
        self.work = routes.link_model.reduction * self.nbytes * messages.reduced()
        self.steps = messages.steps
        self.latency, loads = routes.link_loads(self.sends.rank, self.sends.peer)
        self.shared_links = SharedLinks(loads, routes.speed)
        self.busy = self.shared_links.seconds(self.nbytes)
        self.begin, self.end = np.zeros((2, len(self.nbytes)))
        self.left = self.nbytes.copy()
        self._count_messages()
        self.at = dict.fromkeys(sorted({rank for rank, _ in self.open}), -1)
        self.time = 0.0
        self.events: list[tuple[float, int, int]] = []  # time, kind, message
        self.moving = np.zeros(0, np.int64)
        self.rates = np.zeros(0)

    def _count_messages(self) -> None:
        """Find the sends and the number of open messages of each rank and step."""
        self.mine: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.open: dict[tuple[int, int], int] = defaultdict(int)
        ends = zip(*(column.tolist() for column in self.sends[:4]), strict=True)
        for i, (step, source, _, target) in enumerate(ends):
            self.mine[source, step].append(i)
            self.open[source, step] += 1
            self.open[target, step] += 1

    def run(self) -> float:
        """Simulate until all ranks are done, and return that time."""
        for rank in self.at:
            self._next_step(rank)
        while self.events or len(self.moving):
            self._advance(self._next_event())
        return self.time

    def _next_step(self, rank: int) -> None:
        """Let a rank begin its next step, skipping steps without messages."""
        while self.at[rank] < self.steps:
            self.at[rank] += 1
            step = self.at[rank]
            for turn, i in enumerate(self.mine.get((rank, step), ())):
                self.begin[i] = self.time + turn * self.routes.link_model.message
                starts = float(self.begin[i] + self.latency[i])
                heappush(self.events, (starts, STARTS, i))
            if self.open.get((rank, step)):
                return

    def _next_event(self) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            waits = np.where(
                self.rates == inf, 0.0, self.left[self.moving] / self.rates
            )
        first = self.events[0][0] if self.events else inf
        return min(first, self.time + float(waits.min(initial=inf)))

    def _advance(self, until: float) -> None:
        """Advance to a time, and process all events at that time."""
        near = until + TOGETHER * max(until, 1e-9)
        over = self._move(until, near)
        starting = []
        while self.events and self.events[0][0] <= near:
            _, what, i = heappop(self.events)
            if what == STARTS:
                starting.append(i)
            else:
                self._finish(what, i)
        if starting or over.any():
            fresh = np.array(starting, np.int64)
            self.moving = np.concatenate([self.moving[~over], fresh])
            self.rates = self.shared_links.fair_rates(self.moving)

    def _move(self, until: float, near: float) -> NDArray[np.bool_]:
        """Move bytes until a time, and return the active messages that are complete."""
        moved = np.where(
            self.rates == inf, inf, np.nan_to_num(self.rates) * (until - self.time)
        )
        self.left[self.moving] -= np.minimum(moved, self.left[self.moving])
        self.time = until
        # The remainder of some messages is below the resolution of time.
        over: NDArray[np.bool_]
        over = self.left[self.moving] <= np.nan_to_num(self.rates) * (near - until)
        for i in self.moving[over].tolist():
            self.end[i] = until
            heappush(self.events, (until, SENT, i))
            heappush(self.events, (until + float(self.work[i]), RECEIVED, i))
        return over

    def _finish(self, what: int, i: int) -> None:
        """Complete a message for its sender or for its receiver."""
        column = self.sends.rank if what == SENT else self.sends.peer
        rank, step = int(column[i]), int(self.sends.step[i])
        self.open[rank, step] -= 1
        if step == self.at[rank] and not self.open[rank, step]:
            self._next_step(rank)


class SharedLinks:
    """The link loads of all messages, and the fair rates of active ones."""

    def __init__(self, loads: LinkLoads, speed: Reals):
        known = np.flatnonzero(speed[loads.link] < inf)
        order = known[np.argsort(loads.message[known], kind="stable")]
        self.message, self.link = loads.message[order], loads.link[order]
        self.part = loads.part[order]
        self.speed = speed

    def seconds(self, nbytes: Reals) -> Reals:
        """The busy seconds of each directed link over all messages."""
        weights = nbytes[self.message] * self.part / self.speed[self.link]
        return np.bincount(self.link, weights, len(self.speed)).astype(np.float64)

    def fair_rates(self, messages: Ints) -> Reals:
        """The max-min fair bytes per second of active messages.

        Progressive filling: the links with the least bandwidth per message fix the
        rates of their messages, until all rates are fixed.
        """
        count, loads = len(messages), self._loads(messages)
        used, link = np.unique(loads.link, return_inverse=True)
        free = self.speed[used].copy()
        rates, fixed = np.full(count, inf), np.zeros(count, bool)
        while True:
            is_open = ~fixed[loads.message]
            weight = np.bincount(link, loads.part * is_open, len(used))
            if not (weight > TOGETHER).any():
                return rates
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(weight > TOGETHER, free / weight, inf)
            least = each.min()
            full = each <= least * (1 + TOGETHER)
            now = distinct(loads.message[full[link] & is_open])
            rates[now] = least
            fixed[now] = True
            mine = is_open & fixed[loads.message]
            free -= least * np.bincount(link[mine], loads.part[mine], len(used))
            free = np.maximum(free, 0.0)

    def _loads(self, messages: Ints) -> LinkLoads:
        """The link loads of some messages, renumbered."""
        first = np.searchsorted(self.message, messages)
        lengths = np.searchsorted(self.message, messages, side="right") - first
        which = np.arange(len(messages))
        return LinkLoads(*loads_of(which, lengths, first, self.link, self.part))
