"""Write the rows of a plan template from lowered steps."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

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
        copied, divided = (self._all_rows(each) for each in (copies, divisions))
        runs = list(self._runs())
        borders = _Borders([*runs, *self.pieces, *copied, *divided])
        # Long: one line for each table.
        return PlanTemplate(
            grid=self.grid,
            borders=_table([self._border(part) for part in borders.numbers], 4),
            runs=_table([(array, *span) for *span, array in borders.numbered(runs)], 3),
            steps=_table(steps, 3),
            messages=_table(rows, 7),
            pieces=_table(borders.numbered(self.pieces), 7),
            channels=np.array(self.channels, np.int64),
            numbers=np.array(self.numbers, np.int64),
            hazards=np.array(self.hazards, np.int64),
            copies=_table(borders.numbered(copied), 7),
            divisions=_table(borders.numbered(divided), 7),
            direct=direct,
            forwards=forwards,
            slices=slices,
        )

    def _border(self, number: int) -> tuple[int, ...]:
        """The row of the border at a part."""
        spare, part = divmod(number, self.grid.parts)
        return spare, part, *divmod(part, self.grid.parts // self.grid.blocks)

    def _runs(self) -> Iterator[tuple[int, ...]]:
        """The runs of each array, after that of messages without bytes."""
        yield *NO_PARTS, INPUT
        for array, region in enumerate(self.regions):
            for span in region.spans:
                yield *span, array

    def _all_rows(self, pieces: Iterable[Piece]) -> list[tuple[int, ...]]:
        return [row for piece in pieces for row in self._rows(piece)]

    def _steps(
        self, lowered: Sequence[Lowered]
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The rows of the steps, and those of their messages."""
        steps: list[tuple[int, ...]] = []
        rows: list[tuple[int, ...]] = []
        sent: dict[int, int] = defaultdict(int)
        received: dict[int, int] = defaultdict(int)
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
        self, message: Message, overwritten: list[int], before: dict[int, int]
    ) -> tuple[int, ...]:
        """The row of a message; its pieces, channels and hazards are added."""
        first = len(self.pieces), len(self.channels), len(self.hazards)
        self.pieces += self._all_rows(message.pieces)
        self.channels += message.channels
        for channel in message.channels:
            self.numbers.append(before[channel])
            before[channel] += 1
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
        return self._first_runs[array] + number

    @cached_property
    def _first_runs(self) -> list[int]:
        """The index of the first run of each array, after that without bytes."""
        return [*accumulate((len(each.spans) for each in self.regions), initial=1)]


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


class _Borders:
    """The parts with which the spans of some rows begin and end.

    Attributes
    ----------
    numbers : dict
        The number of each part, in ascending order.
    """

    def __init__(self, rows: Iterable[tuple[int, ...]]):
        parts = {part for row in rows for part in row[:2]}
        self.numbers = {part: number for number, part in enumerate(sorted(parts))}

    def numbered(self, rows: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The rows with the numbers of their parts."""
        number = self.numbers
        return [(number[start], number[stop], *more) for start, stop, *more in rows]
