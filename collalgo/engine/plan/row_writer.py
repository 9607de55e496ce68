"""Write the rows of a plan template from lowered steps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from collalgo.base.distinct import distinct
from collalgo.engine.plan.layout import Grid, Numbered, Region, Reused, Span
from collalgo.engine.plan.rows import (
    INPUT,
    NO_PARTS,
    SCRATCH,
    Lowered,
    Message,
    Piece,
    PlanTemplate,
    Rows,
)
from collalgo.errors import ScheduleError


class RowWriter:
    """Writes the rows of one rank.

    Parameters
    ----------
    rank
        The rank.
    grid
        The parts of the buffer.
    source, target
        The parts of the whole buffer in the caller's input and output.
    """

    def __init__(self, rank: int, grid: Grid, source: Region, target: Region):
        self.rank = rank
        self.grid = grid
        self.regions: list[Region | Reused] = [source, target]
        self.pieces: list[tuple[int, ...]] = []
        self.channels: list[int] = []
        self.numbers: list[int] = []
        self.hazards: list[int] = []

    def template(
        self,
        lowered: Sequence[Lowered],
        copies: Sequence[Piece],
        divisions: Sequence[Piece],
        direct: Rows,
        forwards: Rows,
        slices: int,
    ) -> PlanTemplate:
        """Write the steps, the copies without messages, and the final divisions."""
        scratch = _scratch(lowered, copies)
        self.regions.append(Reused(scratch) if slices > 1 else Region(scratch))
        steps, rows = self._steps(lowered)
        pieces = _table(self.pieces, 7)
        ends = [self._table_of(each) for each in (copies, divisions)]
        runs = _table(list(self._runs()), 3)
        tables = runs[:, 1:], *(table[:, :2] for table in (pieces, *ends))
        borders = _number(tables)
        # Long: one line for each table.
        return PlanTemplate(
            grid=self.grid,
            borders=self._borders(borders),
            runs=runs,
            steps=_table(steps, 3),
            messages=_table(rows, 7),
            pieces=pieces,
            channels=np.array(self.channels, np.int64),
            numbers=np.array(self.numbers, np.int64),
            hazards=np.array(self.hazards, np.int64),
            copies=ends[0],
            divisions=ends[1],
            direct=direct,
            forwards=forwards,
            slices=slices,
        )

    def _borders(self, parts: Rows) -> Rows:
        """The rows of borders at some parts."""
        spare, part = np.divmod(parts, self.grid.parts)
        in_block = np.divmod(part, self.grid.parts // self.grid.blocks)
        return np.stack([spare, part, *in_block], axis=1)

    def _runs(self) -> Iterator[tuple[int, ...]]:
        """The runs of each array, after that of messages without bytes."""
        yield INPUT, *NO_PARTS
        for array, region in enumerate(self.regions):
            for span in region.spans:
                yield array, *span

    def _table_of(self, pieces: Iterable[Piece]) -> Rows:
        return _table([row for piece in pieces for row in self._rows(piece)], 7)

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
            read = Numbered(
                (span, first + i) for i, post in enumerate(posts) for span in post.spans
            )
            for message in receives:
                found = {i for span in message.spans for i in read.overlapping(span)}
                rows.append(self._message(message, sorted(found), received))
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
            for span, target in self.regions[piece.target].cut(part):
                if source is None or target is None:
                    raise ScheduleError(
                        f"rank {self.rank} uses parts {span.start} to {span.stop} of "
                        f"{self.grid.parts} of the buffer, which it does not have; "
                        "collalgo.verify reports the error of the schedule",
                        rank=self.rank,
                    )
                yield (
                    *span,
                    *(piece.source, self._run(piece.source, source)),
                    *(piece.target, self._run(piece.target, target)),
                    int(piece.action),
                )

    def _run(self, array: int, number: int) -> int:
        """The index of a run of an array among those of all arrays."""
        before = sum(len(region.spans) for region in self.regions[:array])
        return 1 + before + number


def _scratch(lowered: Sequence[Lowered], copies: Sequence[Piece]) -> list[Span]:
    """The spans that need scratch."""
    messages = [m for step in lowered for side in step for m in side]
    return [
        piece.span
        for piece in (*copies, *(p for m in messages for p in m.pieces))
        if SCRATCH in (piece.source, piece.target) and piece.span != NO_PARTS
    ]


def _table(rows: Sequence[Sequence[int]], columns: int) -> Rows:
    return np.array(rows, np.int64).reshape(-1, columns)


def _number(tables: Sequence[Rows]) -> Rows:
    """All parts in some tables, ascending; the tables get their numbers instead."""
    borders = distinct(np.concatenate([table.ravel() for table in tables]))
    for table in tables:
        table[...] = np.searchsorted(borders, table)
    return borders
