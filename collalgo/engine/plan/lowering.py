"""Lower a schedule for one rank to rows that the engine runs, for all lengths at once.

A plan consists of bytes in three buffers: the caller's input, the output, and scratch
for partial results that belong in neither. It reads a byte from the input until this
rank has written it elsewhere, so the input is neither copied first nor changed.

Which bytes go where does not depend on the length of the buffer, if they are named by
parts of a grid of which all chunks consist. So a schedule is lowered once, and a
length fills in the bytes of the parts.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from collalgo.engine.plan.chunk_pipelining import Slicing
from collalgo.engine.plan.layout import Grid, Marks, Region, Span
from collalgo.engine.plan.row_writer import RowWriter
from collalgo.engine.plan.rows import (
    INPUT,
    NO_PARTS,
    OUTPUT,
    SCRATCH,
    Action,
    Lowered,
    Message,
    Piece,
    PlanTemplate,
)
from collalgo.engine.plan.zero_copy import sharing
from collalgo.errors import ScheduleError
from collalgo.schedule import LANES, Kind, Step, Transfer, between_two
from collalgo.schedule.chunk import Chunk, merge

UNWRITTEN = -1
UNREAD, READ = range(2)
UNSLICED = Slicing()


class Averaging(enum.Enum):
    """The place where a complete sum is divided by the number of ranks.

    If all ranks share the result, the rank that completes a sum divides it before it
    sends it on, if it never receives the sum again; else each rank divides the whole
    result at the end. Otherwise each rank divides the sums that it keeps.
    """

    NO = enum.auto()
    BEFORE_SHARING = enum.auto()
    ON_EVERY_RANK = enum.auto()
    AT_THE_END = enum.auto()


class Lowering:
    """Lowers the steps of one rank, once.

    Parameters
    ----------
    grid
        The parts of the buffer.
    rank
        The rank.
    size
        The number of ranks.
    source, target
        The parts of the whole buffer in the caller's input and output.
    slicing
        The slices of the plan.
    hosts
        The host of each rank, if they are on several.
    """

    def __init__(
        self,
        grid: Grid,
        rank: int,
        size: int,
        source: Region,
        target: Region,
        slicing: Slicing = UNSLICED,
        hosts: Sequence[int] = (),
    ):
        self.grid = grid
        self.hosts = hosts
        self.slicing = slicing
        self.rank = rank
        self.size = size
        self.source = source
        self.target = target
        self.written = Marks(INPUT)

    def lower(
        self, steps: Sequence[Step], averaging: Averaging, shared: bool = False
    ) -> PlanTemplate:
        """Lower ``steps``, the whole schedule of this rank.

        With ``shared``, every result contains the inputs of all ranks.
        """
        lowered = []
        for step in between_two(steps):
            posts, receives = self._posts(step), self._receives(step)
            for piece in (p for message in receives for p in message.pieces):
                self.written.mark(piece.span, piece.target)
            if posts or receives:
                lowered.append((posts, receives))
        divisions: list[Piece] = []
        if averaging is not Averaging.NO:
            lowered, divisions = self._divide(lowered, averaging)
        if self.slicing.count > 1:
            lowered = self._stored(lowered)
        copies = self._copies()
        writer = RowWriter(self.rank, self.grid, self.source, self.target)
        alone = bool(self.hosts) and self.hosts.count(self.hosts[self.rank]) == 1
        shares = sharing(lowered, copies, divisions, shared, alone)
        return writer.template(lowered, copies, divisions, *shares, self.slicing.count)

    def _copies(self) -> list[Piece]:
        """The output that no message brings: first the pieces out of the input."""
        copies = [
            Piece(span, buffer, OUTPUT, Action.STORE)
            for whole in self._cut(self.target.spans)
            for span, buffer in self.written.cut(whole)
            if buffer != OUTPUT
        ]
        return sorted(copies, key=lambda piece: piece.source != INPUT)

    def _spans(self, chunks: Iterable[Chunk]) -> Iterator[Span]:
        """The parts of chunks, in runs that can be sliced."""
        return self._cut(self.grid.span(chunk) for chunk in merge(chunks))

    def _cut(self, spans: Iterable[Span]) -> Iterator[Span]:
        if self.slicing.count == 1:
            yield from spans
            return
        for span in spans:
            yield from self.grid.cut(span, self.slicing.parts)

    def _posts(self, step: Step) -> list[Message]:
        """The posts of a step; equal bytes for several ranks of a host are one post."""
        readers: dict[tuple[int, tuple[Piece, ...]], list[int]] = defaultdict(list)
        for (peer, lane), transfers in self._by_channel(step, sending=True):
            pieces = [
                Piece(part, buffer, buffer)
                for span in self._spans(c for t in transfers for c in t.chunks)
                for part, buffer in self.written.cut(span)
            ]
            if message := self._message(pieces, transfers):
                channel = self._channel(peer, lane)
                key = lane if self._is_near(peer) else -1 - channel
                readers[key, message].append(channel)
        return [Message(pieces, tuple(to)) for (_, pieces), to in readers.items()]

    def _is_near(self, peer: int) -> bool:
        """Whether a rank is on the same host."""
        return not self.hosts or self.hosts[peer] == self.hosts[self.rank]

    def _receives(self, step: Step) -> list[Message]:
        """The receives of a step; reductions into the same bytes are one receive."""
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
        """Refuse receives that overlap in part: their order would vary."""
        spans = sorted(piece.span for message in receives for piece in message.pieces)
        for before, after in pairwise(spans):
            if after.start < before.stop:
                raise ScheduleError(
                    f"rank {self.rank} receives parts {before.start} to {before.stop} "
                    f"and {after.start} to {after.stop} of {self.grid.parts} of the "
                    "buffer in one step; pass the same parts from every peer in a "
                    "step, or use two steps",
                    rank=self.rank,
                )

    def _incoming(self, transfer: Transfer) -> Iterator[Piece]:
        for whole in self._spans(transfer.chunks):
            for span, target in self._targets(whole):
                if transfer.kind is Kind.RECV:
                    yield Piece(span, target, target)
                    continue
                for part, buffer in self.written.cut(span):
                    yield Piece(part, buffer, target, Action.REDUCE)

    def _targets(self, span: Span) -> Iterator[tuple[Span, int]]:
        """Cut a span into parts of the output and parts of the scratch."""
        for part, offset in self.target.cut(span):
            yield part, SCRATCH if offset is None else OUTPUT

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
        """The sorted pieces; an empty piece for a message without chunks (a token)."""
        if not any(t.chunks for t in transfers):
            return (Piece(NO_PARTS, SCRATCH, SCRATCH),)
        return tuple(sorted(pieces))

    def _channel(self, peer: int, lane: int) -> int:
        if lane >= LANES:
            raise ScheduleError(
                f"rank {self.rank} uses lane {lane} but there are only {LANES} lanes; "
                "run fewer schedules together",
                rank=self.rank,
            )
        return lane * self.size + peer

    def _divide(
        self, lowered: list[Lowered], averaging: Averaging
    ) -> tuple[list[Lowered], list[Piece]]:
        """Divide each byte of the target with the last reduction that writes it."""
        whole_target = self._cut(self.target.spans)
        if averaging is Averaging.ON_EVERY_RANK:
            return lowered, [Piece(span, OUTPUT, OUTPUT) for span in whole_target]
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
            for whole in whole_target
            for span, last in later.cut(whole)
            if last == Action.COPY and averaging is Averaging.AT_THE_END
        ]
        return divided[::-1], divisions

    @staticmethod
    def _stored(lowered: list[Lowered]) -> list[Lowered]:
        """Mark the copies into the output that no later step reads."""
        read = Marks(UNREAD)
        marked = []
        for posts, receives in reversed(lowered):
            after = []
            for message in receives:
                pieces = tuple(
                    piece._replace(action=Action.STORE)
                    if (piece.action, piece.target) == (Action.COPY, OUTPUT)
                    and all(label == UNREAD for _, label in read.cut(piece.span))
                    else piece
                    for piece in message.pieces
                )
                after.append(message._replace(pieces=pieces))
            marked.append((posts, after))
            reduced = (p for m in receives for p in m.pieces if p.action != Action.COPY)
            for piece in (*(p for m in posts for p in m.pieces), *reduced):
                read.mark(piece.span, READ)
        return marked[::-1]

    @staticmethod
    def _dividing(message: Message, later: Marks) -> Message:
        """Divide in a reduction whose target is not written later."""
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
