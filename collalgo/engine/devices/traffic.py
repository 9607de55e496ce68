"""The messages of a plan: their peers, and the places of their bytes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from collalgo.engine.devices.operations import Flag, Place
from collalgo.engine.plan.rows import INPUT, OUTPUT, Plan

#: A message: its ranks and lane, and its number among the messages of these.
Message: TypeAlias = tuple[Flag, int]


class Run(NamedTuple):
    """A run of bytes of the whole buffer that lies in one run of a buffer."""

    start: int
    stop: int
    buffer: int
    at: int


class Traffic:
    """The messages of a rank, by the rows of its plan.

    Attributes
    ----------
    messages : list of list of Message
        The messages of each row.
    """

    def __init__(self, rank: int, plan: Plan, size: int):
        self.rank = rank
        self.plan = plan
        self.messages: list[list[Message]] = []
        counts: dict[tuple[Flag, bool], int] = defaultdict(int)  # also to itself
        for first, middle, last in plan.steps.tolist():
            for row in range(first, last):
                sending = row < middle
                self.messages.append([])
                for flag in self._flags(row, size, sending=sending):
                    counts[flag, sending] += 1
                    self.messages[row].append((flag, counts[flag, sending]))

    def _flags(self, row: int, size: int, *, sending: bool) -> Iterator[Flag]:
        """The flag of each message of a row."""
        _, _, first, last = self.plan.messages[row, :4].tolist()
        for channel in self.plan.channels[first:last].tolist():
            lane, peer = divmod(channel, size)
            sender, receiver = (self.rank, peer) if sending else (peer, self.rank)
            yield Flag(sender, receiver, lane, ready=True)

    def runs(self, row: int, *, reading: bool) -> Iterator[Run]:
        """The places that the bytes of a message are read from, or written to."""
        for start, nbytes, source, at, target, into, _ in self.pieces(row):
            place = (source, at) if reading else (target, into)
            yield Run(start, start + nbytes, *place)

    def pieces(self, row: int) -> Iterator[tuple[int, ...]]:
        """The pieces of a message that have bytes."""
        begin, stop = self.plan.messages[row, :2].tolist()
        return (tuple(p) for p in self.plan.pieces[begin:stop].tolist() if p[1])

    def at_the_end(self) -> Iterator[tuple[Run, Place, bool]]:
        """The final copies and divisions: target, source, and whether to divide."""
        for rows, divide in ((self.plan.copies, False), (self.plan.divisions, True)):
            for start, nbytes, source, at, target, into, _ in rows.tolist():
                if nbytes:
                    run = Run(start, start + nbytes, target, into)
                    yield run, Place(self.rank, source, at), divide


def located(runs: Sequence[Run], offset: int) -> tuple[int, int]:
    """The buffer and the offset of a byte of a message."""
    for run in runs:
        if offset < run.stop - run.start:
            return run.buffer, run.at + offset
        offset -= run.stop - run.start
    raise ValueError(f"a message is {offset + 1} bytes too short")


def overlap(a: Run, b: Run) -> bool:
    """Whether two runs may overlap: input and output may be the same memory."""
    users = {INPUT, OUTPUT}
    same = a.buffer == b.buffer or {a.buffer, b.buffer} <= users
    return same and a.start < b.stop and b.start < a.stop
