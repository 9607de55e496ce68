"""Lower a schedule for one rank, count, dtype and op to rows that the engine runs.

A plan knows bytes and three buffers: the caller's input, the output, and scratch for
partial results that belong in neither. It reads a byte from the input until this rank
has written it elsewhere, so the input is never copied first and never changed.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.transport import LANES
from collalgo.errors import ScheduleError
from collalgo.layout import Layout, Marks, Span
from collalgo.schedule import Kind, Step, Transfer, merge

INPUT, OUTPUT, SCRATCH = range(3)
UNWRITTEN = -1

Rows: TypeAlias = NDArray[np.int64]


class Action(enum.IntEnum):
    """What a rank does with the bytes of a piece that it receives."""

    COPY = 0
    REDUCE = 1
    REDUCE_AND_DIVIDE = 2


class Piece(NamedTuple):
    """A span, where its bytes are read and written, and what is done with them."""

    span: Span
    source: int
    target: int
    action: Action = Action.COPY

    def row(self) -> tuple[int, ...]:
        start, stop = self.span
        return start, stop - start, self.source, self.target, self.action


@dataclass(frozen=True)
class Plan:
    """The rows of one rank; ``engine.pyx`` gives the meaning of the columns.

    Attributes
    ----------
    source_shift, target_shift : int
        Where the caller's input and output begin in the whole buffer, in bytes.
    scratch_bytes : int
        How much scratch the rank needs.
    """

    steps: Rows
    messages: Rows
    pieces: Rows
    channels: Rows
    hazards: Rows
    copies: Rows
    divisions: Rows
    source_shift: int
    target_shift: int
    scratch_bytes: int


class Averaging(enum.Enum):
    """Who divides a complete sum by the number of ranks.

    Where all ranks share the result, the rank that completes a sum divides it and
    passes it on divided; otherwise each rank divides what it keeps.
    """

    NO = enum.auto()
    BEFORE_SHARING = enum.auto()
    AT_THE_END = enum.auto()


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


class Walk:
    """One walk through the steps of a rank.

    Parameters
    ----------
    layout
        How chunks map to bytes.
    rank
        The rank.
    source, target
        The parts of the whole buffer that the caller's input and output cover.
    """

    def __init__(self, layout: Layout, rank: int, source: Span, target: Span):
        self.layout = layout
        self.rank = rank
        self.source = source
        self.target = target
        self.written = Marks(INPUT)

    def lower(self, steps: Sequence[Step], averaging: Averaging) -> Plan:
        """Lower ``steps``, all that the schedule asks of this rank."""
        lowered = []
        for step in steps:
            posts, receives = self._posts(step), self._receives(step)
            for piece in (p for message in receives for p in message.pieces):
                self.written.mark(piece.span, piece.target)
            if posts or receives:
                lowered.append((posts, receives))
        divisions: list[Piece] = []
        if averaging is not Averaging.NO:
            lowered, divisions = self._divide(lowered, averaging)
        return self._rows(lowered, divisions)

    def _posts(self, step: Step) -> list[Message]:
        """What leaves in a step; the same bytes for several peers are posted once."""
        readers: dict[tuple[int, tuple[Piece, ...]], list[int]] = defaultdict(list)
        for (peer, lane), transfers in self._by_channel(step, sending=True):
            pieces = [
                Piece(part, buffer, SCRATCH)
                for chunk in merge(c for t in transfers for c in t.chunks)
                for part, buffer in self.written.cut(self.layout.span(chunk))
            ]
            if message := self._message(pieces, transfers):
                readers[lane, message].append(self._channel(peer, lane))
        return [Message(pieces, tuple(to)) for (_, pieces), to in readers.items()]

    def _receives(self, step: Step) -> list[Message]:
        """What comes in a step; what is reduced into the same bytes comes together."""
        single: list[Message] = []
        reduced: dict[tuple[Piece, ...], list[tuple[int, int]]] = defaultdict(list)
        for (peer, lane), transfers in self._by_channel(step, sending=False):
            pieces = [piece for t in transfers for piece in self._incoming(t)]
            message = self._message(pieces, transfers)
            channel = self._channel(peer, lane)
            if message and all(piece.action is Action.REDUCE for piece in message):
                reduced[message].append((peer, channel))
            elif message:
                single.append(Message(message, (channel,), int(peer < self.rank)))
        for pieces_, sources in reduced.items():
            own_place = sum(peer < self.rank for peer, _ in sources)
            channels = tuple(channel for _, channel in sorted(sources))
            single.append(Message(pieces_, channels, own_place))
        self._check_disjoint(single)
        return single

    def _check_disjoint(self, receives: list[Message]) -> None:
        """Only what is equal can be combined in one step, else the order would vary."""
        spans = sorted(piece.span for message in receives for piece in message.pieces)
        for before, after in pairwise(spans):
            if after.start < before.stop:
                raise ScheduleError(
                    f"rank {self.rank} receives bytes {before.start} to {before.stop} "
                    f"and {after.start} to {after.stop} in one step; what it reduces "
                    "at once must be equal from every peer, so use two steps",
                    rank=self.rank,
                )

    def _incoming(self, transfer: Transfer) -> Iterator[Piece]:
        for chunk in merge(transfer.chunks):
            for span, target in self._targets(self.layout.span(chunk)):
                if transfer.kind is Kind.RECV:
                    yield Piece(span, target, target)
                    continue
                for part, buffer in self.written.cut(span):
                    yield Piece(part, buffer, target, Action.REDUCE)

    def _targets(self, span: Span) -> Iterator[tuple[Span, int]]:
        """Cut a span into what belongs into the output and what does not."""
        start, stop = (min(max(x, span.start), span.stop) for x in self.target)
        for part, buffer in (
            (Span(span.start, start), SCRATCH),
            (Span(start, stop), OUTPUT),
            (Span(stop, span.stop), SCRATCH),
        ):
            if part.start < part.stop:
                yield part, buffer

    @staticmethod
    def _by_channel(
        step: Step, *, sending: bool
    ) -> Iterable[tuple[tuple[int, int], list[Transfer]]]:
        found: dict[tuple[int, int], list[Transfer]] = defaultdict(list)
        for transfer in step:
            if (transfer.kind is Kind.SEND) is sending:
                found[transfer.peer, transfer.lane].append(transfer)
        return found.items()

    @staticmethod
    def _message(pieces: list[Piece], transfers: list[Transfer]) -> tuple[Piece, ...]:
        """Sort the pieces; nothing if there are none, unless a token was meant."""
        if not any(t.chunks for t in transfers):
            return (Piece(Span(0, 0), SCRATCH, SCRATCH),)
        return tuple(sorted(pieces))

    def _channel(self, peer: int, lane: int) -> int:
        if lane >= LANES:
            raise ScheduleError(
                f"rank {self.rank} uses lane {lane} but there are only {LANES} lanes; "
                "run fewer schedules together",
                rank=self.rank,
            )
        return lane * self.layout.size + peer

    def _divide(
        self, lowered: list[tuple[list[Message], list[Message]]], averaging: Averaging
    ) -> tuple[list[tuple[list[Message], list[Message]]], list[Piece]]:
        """Divide each byte of the target with the last reduction that writes it."""
        later = Marks(UNWRITTEN)
        divided = []
        for posts, receives in reversed(lowered):
            divided.append((posts, [self._dividing(m, later) for m in receives]))
            for piece in [p for message in receives for p in message.pieces]:
                for span, last in list(later.cut(piece.span)):
                    if last == UNWRITTEN:
                        later.mark(span, piece.action)
        divisions = [
            Piece(span, OUTPUT, OUTPUT)
            for span, last in later.cut(self.target)
            if last == Action.COPY and averaging is Averaging.AT_THE_END
        ]
        return divided[::-1], divisions

    @staticmethod
    def _dividing(message: Message, later: Marks) -> Message:
        """Let a reduction divide as well where nothing is written later."""
        pieces = []
        for piece in message.pieces:
            if piece.action is not Action.REDUCE or piece.target != OUTPUT:
                pieces.append(piece)
                continue
            for span, last in later.cut(piece.span):
                divides = last == UNWRITTEN
                action = Action.REDUCE_AND_DIVIDE if divides else Action.REDUCE
                pieces.append(piece._replace(span=span, action=action))
        return message._replace(pieces=tuple(pieces))

    def _rows(
        self,
        lowered: Sequence[tuple[list[Message], list[Message]]],
        divisions: Sequence[Piece],
    ) -> Plan:
        steps: list[tuple[int, ...]] = []
        messages: list[tuple[int, ...]] = []
        pieces: list[tuple[int, ...]] = []
        channels: list[int] = []
        hazards: list[int] = []
        for posts, receives in lowered:
            first = len(messages)
            for number, message in enumerate((*posts, *receives)):
                overwritten = [
                    first + i
                    for i, post in enumerate(posts)
                    if number >= len(posts) and message.overlaps(post)
                ]
                bounds = [
                    (len(x), len(x) + len(y))
                    for x, y in (
                        (pieces, message.pieces),
                        (channels, message.channels),
                        (hazards, overwritten),
                    )
                ]
                messages.append((*bounds[0], *bounds[1], message.own_place, *bounds[2]))
                pieces += [piece.row() for piece in message.pieces]
                channels += message.channels
                hazards += overwritten
            steps.append((first, first + len(posts), len(messages)))
        copies = [
            Piece(span, buffer, OUTPUT).row()
            for span, buffer in self.written.cut(self.target)
            if buffer != OUTPUT
        ]
        return Plan(
            steps=_table(steps, 3),
            messages=_table(messages, 7),
            pieces=_table(pieces, 5),
            channels=np.array(channels, np.int64),
            hazards=np.array(hazards, np.int64),
            copies=_table(copies, 5),
            divisions=_table([piece.row() for piece in divisions], 5),
            source_shift=self.source.start,
            target_shift=self.target.start,
            scratch_bytes=max(
                (p[0] + p[1] for p in pieces if SCRATCH in p[2:4]), default=0
            ),
        )


def _table(rows: Sequence[Sequence[int]], columns: int) -> Rows:
    return np.array(rows, np.int64).reshape(-1, columns)
