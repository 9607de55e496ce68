"""The fluid model: messages under way share links max-min fairly.

A rank begins a step when it has done the one before: sent what it sends, and received
what it receives. A message waits for its latency and then flows along its path, on all
links of it at once (cut-through). No message can be faster unless one that is no faster
becomes slower still.
"""

from collections import defaultdict
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from collalgo.cost.roads import MESSAGE, Roads, Way

#: Events closer to each other than this part of the time are one.
TOGETHER = 1e-9


class Flow(NamedTuple):
    """A message: the step of both ranks, the ranks, the bytes, and if it is reduced."""

    step: int
    source: int
    target: int
    nbytes: float
    reduces: bool


class Outcome(NamedTuple):
    """Seconds in all, of the steps where they are the same for all ranks, of links."""

    seconds: float
    steps: tuple[float, ...]
    busy: dict[Way, float]


def play(steps: list[list[Flow]], roads: Roads, reduction: float) -> Outcome:
    """Play a schedule until all ranks are done."""
    return Play(steps, roads, reduction).outcome()


class Play:
    """The state of all ranks and messages at one time."""

    def __init__(self, steps: list[list[Flow]], roads: Roads, reduction: float):
        self.roads, self.reduction, self.steps = roads, reduction, len(steps)
        self.flows = [flow for flows in steps for flow in flows]
        self.ways = [
            [way for way in roads.ways(f.source, f.target) if way[0].bandwidth]
            for f in self.flows
        ]
        self.left = [flow.nbytes for flow in self.flows]
        self.sends: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.open: dict[tuple[int, int], int] = defaultdict(int)
        for i, flow in enumerate(self.flows):
            self.sends[flow.source, flow.step].append(i)
            self.open[flow.source, flow.step] += 1
            self.open[flow.target, flow.step] += 1
        self.at = [-1] * len(roads.places)
        self.time = 0.0
        self.events: list[tuple[float, int, int]] = []  # when, what, of whom
        self.moving: dict[int, float] = {}  # messages and their rates

    def outcome(self) -> Outcome:
        """Play to the end."""
        for rank in range(len(self.at)):
            self._next_step(rank)
        while self.events or self.moving:
            self._advance(self._next_event())
        busy: dict[Way, float] = defaultdict(float)
        for flow, ways in zip(self.flows, self.ways, strict=True):
            for way in ways:
                busy[way] += flow.nbytes / (1e9 * (way[0].bandwidth or inf))
        return Outcome(self.time, (), dict(busy))

    def _next_step(self, rank: int) -> None:
        """Let a rank begin its next step, and those in which it has nothing to do."""
        while self.at[rank] < self.steps:
            self.at[rank] += 1
            step = self.at[rank]
            for turn, i in enumerate(self.sends[rank, step]):
                flow = self.flows[i]
                latency = self.roads.latency(flow.source, flow.target)
                starts = self.time + latency + turn * MESSAGE
                heappush(self.events, (starts, STARTS, i))
            if self.open[rank, step]:
                return

    def _next_event(self) -> float:
        ends = [
            self.time + self.left[i] / rate if rate < inf else self.time
            for i, rate in self.moving.items()
            if rate
        ]
        first = self.events[0][0] if self.events else inf
        return min(first, min(ends, default=inf))

    def _advance(self, until: float) -> None:
        """Go on to the next event, and do all that happens then."""
        near = until + TOGETHER * max(until, 1e-9)
        for i, rate in self.moving.items():
            self.left[i] = (
                0.0 if rate == inf else self.left[i] - rate * (until - self.time)
            )
        self.time = until
        done = [
            i for i in self.moving if self.left[i] <= self.flows[i].nbytes * TOGETHER
        ]
        for i in done:
            del self.moving[i]
            flow = self.flows[i]
            wait = self.reduction * flow.nbytes if flow.reduces else 0.0
            heappush(self.events, (until, SENT, flow.source))
            heappush(self.events, (until + wait, RECEIVED, i))
        while self.events and self.events[0][0] <= near:
            _, what, whom = heappop(self.events)
            if what == STARTS:
                self.moving[whom] = 0.0
            else:
                self._finish(what, whom)
        self.moving = shared(list(self.moving), self.ways)

    def _finish(self, what: int, whom: int) -> None:
        """Half of a message is over: for its sender, or for its receiver."""
        rank = whom if what == SENT else self.flows[whom].target
        step = self.at[rank] if what == SENT else self.flows[whom].step
        self.open[rank, step] -= 1
        if step == self.at[rank] and not self.open[rank, step]:
            self._next_step(rank)


STARTS, SENT, RECEIVED = range(3)


def shared(flows: list[int], ways: list[list[Way]]) -> dict[int, float]:
    """Bytes per second of each message, max-min fair.

    Again and again the link that gives least to each of its messages fixes their rates.
    """
    rates = dict.fromkeys(flows, inf)
    users: dict[Way, set[int]] = defaultdict(set)
    for i in flows:
        for way in ways[i]:
            users[way].add(i)
    free = {way: 1e9 * (way[0].bandwidth or inf) for way in users}
    while users:
        way = min(users, key=lambda w: free[w] / len(users[w]))
        rate = free[way] / len(users[way])
        for i in list(users[way]):
            rates[i] = rate
            for other in ways[i]:
                free[other] -= rate
                users[other].discard(i)
                if not users[other]:
                    del users[other]
    return rates
