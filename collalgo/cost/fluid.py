"""The fluid model: messages under way share links max-min fairly.

A rank begins a step when it has done the one before: sent what it sends, and received
what it receives. A message waits for its latency and then flows along its roads, on all
links of them at once (cut-through). No message can be faster unless one that is no
faster becomes slower still.
"""

from collections import defaultdict
from heapq import heappop, heappush
from math import inf

import numpy as np

from collalgo._kernels.cost.loads import legs_of
from collalgo.cost.messages import Messages
from collalgo.cost.routing import Legs, Map
from collalgo.schedule.transfers import Ints, Reals

#: Events closer to each other than this part of the time are one.
TOGETHER = 1e-9

STARTS, SENT, RECEIVED = range(3)


class Play:
    """The state of all ranks and messages at one time.

    Attributes
    ----------
    sends : Messages
        What is sent.
    begin, end : ndarray
        When each message leaves its rank, and when all of it has come.
    busy : ndarray
        Seconds that each way is busy.
    """

    def __init__(self, messages: Messages, nbytes: float, roads: Map):
        self.sends = messages.sends
        self.roads = roads
        self.nbytes = self.sends.share * nbytes
        self.work = roads.figures.reduction * self.nbytes * messages.reduced()
        self.steps = messages.steps
        self.latency, legs = roads.trips(self.sends.rank, self.sends.peer)
        self.legs = Ways(legs, roads.speed)
        self.busy = self.legs.seconds(self.nbytes)
        self.begin, self.end = np.zeros((2, len(self.nbytes)))
        self.left = self.nbytes.copy()
        self.mine: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.open: dict[tuple[int, int], int] = defaultdict(int)
        ends = zip(*(column.tolist() for column in self.sends[:4]), strict=True)
        for i, (step, source, _, target) in enumerate(ends):
            self.mine[source, step].append(i)
            self.open[source, step] += 1
            self.open[target, step] += 1
        ranks = {rank for rank, _ in self.open}
        self.at = dict.fromkeys(sorted(ranks), -1)
        self.time = 0.0
        self.events: list[tuple[float, int, int]] = []  # when, what, of whom
        self.moving = np.zeros(0, np.int64)
        self.rates = np.zeros(0)

    def run(self) -> float:
        """Play until all ranks are done: when that is."""
        for rank in self.at:
            self._next_step(rank)
        while self.events or len(self.moving):
            self._advance(self._next_event())
        return self.time

    def _next_step(self, rank: int) -> None:
        """Let a rank begin its next step, and those in which it has nothing to do."""
        while self.at[rank] < self.steps:
            self.at[rank] += 1
            step = self.at[rank]
            for turn, i in enumerate(self.mine.get((rank, step), ())):
                self.begin[i] = self.time + turn * self.roads.figures.message
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
        """Go on to the next event, and do all that happens then."""
        near = until + TOGETHER * max(until, 1e-9)
        moved = np.where(
            self.rates == inf, inf, np.nan_to_num(self.rates) * (until - self.time)
        )
        self.left[self.moving] -= np.minimum(moved, self.left[self.moving])
        self.time = until
        # What is left of some is less than time can tell apart.
        over = self.left[self.moving] <= np.nan_to_num(self.rates) * (near - until)
        for i in self.moving[over].tolist():
            self.end[i] = until
            heappush(self.events, (until, SENT, i))
            heappush(self.events, (until + float(self.work[i]), RECEIVED, i))
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
            self.rates = self.legs.fair_rates(self.moving)

    def _finish(self, what: int, i: int) -> None:
        """Half of a message is over: for its sender, or for its receiver."""
        column = self.sends.rank if what == SENT else self.sends.peer
        rank, step = int(column[i]), int(self.sends.step[i])
        self.open[rank, step] -= 1
        if step == self.at[rank] and not self.open[rank, step]:
            self._next_step(rank)


class Ways:
    """The ways of all messages, and how those under way share them."""

    def __init__(self, legs: Legs, speed: Reals):
        known = np.flatnonzero(speed[legs.way] < inf)
        order = known[np.argsort(legs.message[known], kind="stable")]
        self.message, self.way = legs.message[order], legs.way[order]
        self.part = legs.part[order]
        self.speed = speed

    def seconds(self, nbytes: Reals) -> Reals:
        """How long each way is busy with all messages."""
        weights = nbytes[self.message] * self.part / self.speed[self.way]
        return np.bincount(self.way, weights, len(self.speed)).astype(np.float64)

    def fair_rates(self, messages: Ints) -> Reals:
        """Bytes per second of messages under way, max-min fair.

        Again and again the links that give least to each of their messages fix the
        rates of those.
        """
        count = len(messages)
        first = np.searchsorted(self.message, messages)
        lengths = np.searchsorted(self.message, messages, side="right") - first
        legs = Legs(*legs_of(np.arange(count), lengths, first, self.way, self.part))
        used, way = np.unique(legs.way, return_inverse=True)
        free = self.speed[used].copy()
        rates, fixed = np.full(count, inf), np.zeros(count, bool)
        while True:
            open_legs = ~fixed[legs.message]
            weight = np.bincount(way, legs.part * open_legs, len(used))
            if not (weight > TOGETHER).any():
                return rates
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(weight > TOGETHER, free / weight, inf)
            least = each.min()
            full = each <= least * (1 + TOGETHER)
            now = np.unique(legs.message[full[way] & open_legs])
            rates[now] = least
            fixed[now] = True
            mine = open_legs & fixed[legs.message]
            free -= least * np.bincount(way[mine], legs.part[mine], len(used))
            free = np.maximum(free, 0.0)
