"""The rows of a plan: the input of the engine, with the place of every byte."""

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo.engine.plan.layout import Region, Reused, Span
from collalgo.errors import ScheduleError

INPUT, OUTPUT, SCRATCH = range(3)

Rows: TypeAlias = NDArray[np.int64]


class Action(enum.IntEnum):
    """The action of a rank on the bytes of a piece that it receives."""

    COPY = 0
    REDUCE = 1
    REDUCE_AND_DIVIDE = 2
    STORE = 3  # a copy whose target this rank does not read again in this call


class Piece(NamedTuple):
    """A span, the arrays to read its bytes from and write them to, and the action."""

    span: Span
    source: int
    target: int
    action: Action = Action.COPY


@dataclass(frozen=True)
class Plan:
    """The rows of one rank; ``rows.pxd`` defines the columns.

    Attributes
    ----------
    scratch_bytes : int
        The scratch of the rank, which each slice reuses.
    copies : ndarray
        Pieces that no message brings: first those of the input, which wait for nothing.
    numbers : ndarray
        For each channel of a message, the number of earlier messages on it.
    direct : ndarray
        For each message, whether other ranks may access its memory directly; see
        :class:`collalgo.engine.plan.zero_copy.DirectBuffers`.
    forwards : ndarray
        For each message, the post that forwards its sum; see
        :mod:`collalgo.engine.plan.reduce_forward`.
    slices : int
        The number of parts of every piece on which the steps run, one after the other.
    """

    steps: Rows
    messages: Rows
    pieces: Rows
    channels: Rows
    numbers: Rows
    hazards: Rows
    copies: Rows
    divisions: Rows
    scratch_bytes: int
    direct: Rows
    forwards: Rows
    slices: int


class Message(NamedTuple):
    """Pieces in ascending order, sent to all or received from all of the channels."""

    pieces: tuple[Piece, ...]
    channels: tuple[int, ...]
    own_place: int = 0

    def overlaps(self, other: "Message") -> bool:
        return any(
            a.span.start < b.span.stop and b.span.start < a.span.stop
            for a in self.pieces
            for b in other.pieces
        )


#: The posts and the receives of a step.
Lowered: TypeAlias = tuple[list[Message], list[Message]]


class RowWriter:
    """Writes the rows of one rank.

    Parameters
    ----------
    rank
        The rank.
    source, target
        The parts of the whole buffer in the caller's input and output.
    """

    def __init__(self, rank: int, source: Region, target: Region):
        self.rank = rank
        self.regions: list[Region | Reused] = [source, target]
        self.pieces: list[tuple[int, ...]] = []
        self.channels: list[int] = []
        self.numbers: list[int] = []
        self.hazards: list[int] = []

    def plan(
        self,
        lowered: Sequence[Lowered],
        copies: Sequence[Piece],
        divisions: Sequence[Piece],
        direct: Rows,
        forwards: Rows,
        slices: int,
    ) -> Plan:
        """Write the steps, the copies without messages, and the final divisions."""
        messages = [m for step in lowered for side in step for m in side]
        scratch = [
            piece.span
            for piece in (*copies, *(p for m in messages for p in m.pieces))
            if SCRATCH in (piece.source, piece.target)
        ]
        self.regions.append(Reused(scratch, slices) if slices > 1 else Region(scratch))
        steps, rows = self._steps(lowered)
        return Plan(
            steps=_table(steps, 3),
            messages=_table(rows, 7),
            pieces=_table(self.pieces, 7),
            channels=np.array(self.channels, np.int64),
            numbers=np.array(self.numbers, np.int64),
            hazards=np.array(self.hazards, np.int64),
            copies=_table([row for p in copies for row in self._rows(p)], 7),
            divisions=_table([row for p in divisions for row in self._rows(p)], 7),
            scratch_bytes=self.regions[SCRATCH].nbytes,
            direct=direct,
            forwards=forwards,
            slices=slices,
        )

    def _steps(
        self, lowered: Sequence[Lowered]
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The rows of the steps, and those of their messages."""
        steps: list[tuple[int, ...]] = []
        rows: list[tuple[int, ...]] = []
        sent: Counter[int] = Counter()
        received: Counter[int] = Counter()
        for posts, receives in lowered:
            first = len(rows)
            rows += [self._message(post, [], sent) for post in posts]
            for message in receives:
                overlapping = [
                    first + i for i, post in enumerate(posts) if message.overlaps(post)
                ]
                rows.append(self._message(message, overlapping, received))
            steps.append((first, first + len(posts), len(rows)))
        return steps, rows

    def _message(
        self, message: Message, overwritten: list[int], before: Counter[int]
    ) -> tuple[int, ...]:
        """The row of a message; its pieces, channels and hazards are added."""
        first = len(self.pieces), len(self.channels), len(self.hazards)
        self.pieces += [row for piece in message.pieces for row in self._rows(piece)]
        self.channels += message.channels
        self.numbers += [before[channel] for channel in message.channels]
        before.update(message.channels)
        self.hazards += overwritten
        piece, channel, hazard = first
        return (
            *(piece, len(self.pieces), channel, len(self.channels)),
            *(message.own_place, hazard, len(self.hazards)),
        )

    def _rows(self, piece: Piece) -> Iterator[tuple[int, ...]]:
        """The rows of a piece: runs that are contiguous in both arrays."""
        if piece.span.start == piece.span.stop:
            yield (0,) * 7
        for part, source in self.regions[piece.source].cut(piece.span):
            for (start, stop), target in self.regions[piece.target].cut(part):
                if source is None or target is None:
                    raise ScheduleError(
                        f"rank {self.rank} uses bytes {start} to {stop}, which it does "
                        "not have; collalgo.verify says where the schedule is wrong",
                        rank=self.rank,
                    )
                at = source + start - part.start
                yield (
                    *(start, stop - start, piece.source, at, piece.target, target),
                    int(piece.action),
                )


def _table(rows: Sequence[Sequence[int]], columns: int) -> Rows:
    return np.array(rows, np.int64).reshape(-1, columns)
