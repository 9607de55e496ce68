"""The LogGOPS model of Hoefler, Schneider and Lumsdaine (LogGOPSim, 2010).

A message of s bytes occupies the processor of its sender for o + (s - 1) O, and its
network card for g + (s - 1) G before the next may follow; it travels for
L + (s - 1) G, and occupies its receiver as long as its sender. Times have the unit of
the parameters.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.schedule import Kind, Step, Transfer


class LogGOPS(NamedTuple):
    """The parameters of the model, by their names in the literature."""

    latency: float  #: L
    overhead: float  #: o, of a message on the processor
    gap: float  #: g, between messages on the network card
    gap_per_byte: float  #: G
    overhead_per_byte: float = 0.0  #: O

    def occupies(self, nbytes: float) -> float:
        """The time a message occupies a processor."""
        return self.overhead + max(nbytes - 1, 0) * self.overhead_per_byte

    def blocks(self, nbytes: float) -> float:
        """The time a message blocks the next one on a network card."""
        return self.gap + max(nbytes - 1, 0) * self.gap_per_byte

    def travels(self, nbytes: float) -> float:
        """The time from the end of a send to the arrival of the message."""
        return self.latency + max(nbytes - 1, 0) * self.gap_per_byte


@dataclass
class Progress:
    """The step of a rank, and the times at which its processor and card are free."""

    step: int = 0
    has_sent: bool = False
    processor: float = 0.0
    sending: float = 0.0
    receiving: float = 0.0


def finish_times(
    schedules: Sequence[Sequence[Step]], nbytes: float, model: LogGOPS
) -> list[float]:
    """The time at which each rank completes its part of a schedule.

    In a step a rank first sends, in the order of its transfers, and then receives, in
    order of arrival.

    Parameters
    ----------
    schedules
        The steps of all ranks.
    nbytes
        The bytes of the whole buffer.
    model
        The parameters.

    Raises
    ------
    ScheduleError
        If a rank waits for a message that is never sent.

    Examples
    --------
    >>> from collalgo.algorithms.catalogue import find
    >>> from collalgo.schedule import trace
    >>> reduce = find("reduce", "binomial", 8).schedule
    >>> schedules = [trace(reduce, rank, 8) for rank in range(8)]
    >>> times = finish_times(schedules, 1024, LogGOPS(2500, 1500, 1000, 6))
    >>> sorted(times, reverse=True)[:5]
    [34914.0, 24776.0, 13138.0, 13138.0, 1500.0]
    """
    return LogGOPSSimulation(schedules, nbytes, model).times()


class LogGOPSSimulation:
    """An event simulation of all ranks."""

    def __init__(
        self, schedules: Sequence[Sequence[Step]], nbytes: float, model: LogGOPS
    ):
        self.schedules, self.nbytes, self.model = schedules, nbytes, model
        self.ranks = [Progress() for _ in schedules]
        self.arrivals: dict[tuple[int, int, int], deque[float]] = defaultdict(deque)

    def times(self) -> list[float]:
        """Simulate until no rank can continue, and return the end of each rank."""
        awake = deque(range(len(self.ranks)))
        while awake:
            awake.extend(self._advance(awake.popleft()))
        for rank, progress in enumerate(self.ranks):
            if progress.step < len(self.schedules[rank]):
                raise ScheduleError(
                    f"step {progress.step} of rank {rank} waits for a message that is "
                    "never sent",
                    rank=rank,
                )
        return [progress.processor for progress in self.ranks]

    def _advance(self, rank: int) -> list[int]:
        """Advance a rank until it blocks, and return the peers it has sent to."""
        mine, sent_to = self.ranks[rank], []
        while mine.step < len(self.schedules[rank]):
            step = self.schedules[rank][mine.step]
            if not mine.has_sent:
                for transfer in step:
                    if transfer.kind is Kind.SEND:
                        self._send(rank, mine, transfer)
                        sent_to.append(transfer.peer)
                mine.has_sent = True
            receives = [t for t in step if t.kind is not Kind.SEND]
            if not self._have_arrived(rank, receives):
                break
            self._receive(rank, mine, receives)
            mine.step += 1
            mine.has_sent = False
        return sent_to

    def _bytes(self, transfer: Transfer) -> float:
        return self.nbytes * sum((c.stop - c.start) / c.parts for c in transfer.chunks)

    def _send(self, rank: int, mine: Progress, transfer: Transfer) -> None:
        size = self._bytes(transfer)
        start = max(mine.processor, mine.sending)
        mine.processor = start + self.model.occupies(size)
        mine.sending = start + self.model.blocks(size)
        arrival = mine.processor + self.model.travels(size)
        self.arrivals[rank, transfer.peer, transfer.lane].append(arrival)

    def _have_arrived(self, rank: int, receives: list[Transfer]) -> bool:
        needed: dict[tuple[int, int, int], int] = defaultdict(int)
        for transfer in receives:
            needed[transfer.peer, rank, transfer.lane] += 1
        return all(len(self.arrivals[key]) >= count for key, count in needed.items())

    def _receive(self, rank: int, mine: Progress, receives: list[Transfer]) -> None:
        messages = [
            (self.arrivals[t.peer, rank, t.lane].popleft(), self._bytes(t))
            for t in receives
        ]
        for arrival, size in sorted(messages):
            start = max(arrival, mine.processor, mine.receiving)
            mine.processor = start + self.model.occupies(size)
            mine.receiving = start + self.model.blocks(size)
