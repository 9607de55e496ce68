"""The layout of a buffer: the parts that chunks consist of, and their elements."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from collalgo.schedule.chunk import Chunk


class Span(NamedTuple):
    """A run of parts of the whole buffer."""

    start: int
    stop: int


class Grid(NamedTuple):
    """A buffer of equal parts; every chunk of a rank is made of whole parts.

    A schedule is lowered on a grid, where a span is a run of parts, once for buffers of
    all lengths; see :mod:`collalgo.engine.plan.template`. The parts of the spare
    buffers follow those of the buffer of the call.

    Attributes
    ----------
    parts : int
        The number of parts.
    blocks : int
        The number of equal blocks of parts that belong to ranks.
    """

    parts: int
    blocks: int

    def span(self, chunk: Chunk) -> Span:
        """The parts of a chunk."""
        width, spare = self.parts // chunk.parts, chunk.spare * self.parts
        return Span(spare + chunk.start * width, spare + chunk.stop * width)

    def block(self, number: int) -> Span:
        """The parts of a block."""
        return self.span(Chunk(number, number + 1, self.blocks))

    def cut(self, span: Span, pieces: int) -> Iterator[Span]:
        """Cut a span at the borders of equal pieces of the buffer."""
        width = self.parts // pieces
        start, stop = span
        for border in range(start - start % width + width, stop, width):
            yield Span(start, border)
            start = border
        yield Span(start, stop)

    @property
    def whole(self) -> Span:
        return Span(0, self.parts)


@dataclass(frozen=True)
class Layout:
    """The number of elements of the buffer and of its blocks.

    ``counts`` is None if the blocks belong to no rank, so their borders are free.
    """

    count: int
    itemsize: int
    blocks: int
    counts: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        return self.count * self.itemsize


class Region:
    """The spans of the whole buffer in an array, in order."""

    def __init__(self, spans: Iterable[Span]):
        self.spans: list[Span] = []
        for span in sorted(spans):
            if self.spans and span.start <= self.spans[-1].stop:
                start, stop = self.spans.pop()
                self.spans.append(Span(start, max(stop, span.stop)))
            elif span.start < span.stop:
                self.spans.append(span)

    def cut(self, span: Span) -> Iterator[tuple[Span, int | None]]:
        """Cut a span into runs, each with the number of the array's span, or None."""
        start, stop = span
        number = max(bisect_right(self.spans, (start, start)) - 1, 0)
        if number < len(self.spans):
            first, last = self.spans[number]
            if first <= start < stop <= last:  # the usual case
                yield span, number
                return
        while start < stop:
            mine = self.spans[number] if number < len(self.spans) else Span(stop, stop)
            if start < mine.start:
                end = min(mine.start, stop)
                yield Span(start, end), None
                start = end
            elif start < mine.stop:
                end = min(mine.stop, stop)
                yield Span(start, end), number
                start = end
            else:
                number += 1


class Reused:
    """Spans of the whole buffer in memory that is reused by each slice."""

    def __init__(self, spans: Iterable[Span]):
        self.spans = sorted(set(spans))
        self._numbers = {span: number for number, span in enumerate(self.spans)}

    def cut(self, span: Span) -> Iterator[tuple[Span, int | None]]:
        """The whole span, which is not cut, with its number."""
        yield span, self._numbers.get(span)


class Numbered:
    """Spans with numbers, to find those that overlap another span."""

    def __init__(self, spans: Iterable[tuple[Span, int]]):
        ordered = sorted(spans)
        self._starts = [span.start for span, _ in ordered]
        self._ends = [(span.stop, number) for span, number in ordered]
        self._reach = [*accumulate((stop for stop, _ in self._ends), max)]

    def overlapping(self, span: Span) -> Iterator[int]:
        """The numbers of the spans that overlap one, in any order."""
        last = bisect_left(self._starts, span.stop) - 1
        while last >= 0 and self._reach[last] > span.start:
            stop, number = self._ends[last]
            if stop > span.start:
                yield number
            last -= 1


class Marks:
    """Labels on parts of the buffer; parts without one have the label ``blank``."""

    def __init__(self, blank: int):
        self.blank = blank
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._labels: list[int] = []

    def mark(self, span: Span, label: int) -> None:
        """Label a span, in place of its former labels."""
        start, stop = span
        if start >= stop:
            return
        first, end = self._touching(span)
        if self._relabel_exact(first, end, span, label):  # the usual case
            return
        before, after = [], []
        for i in range(first, end):
            old = self._starts[i], self._stops[i], self._labels[i]
            if old[2] == label:
                start, stop = min(start, old[0]), max(stop, old[1])
                continue
            if old[0] < span.start:
                before.append((old[0], span.start, old[2]))
            if old[1] > span.stop:
                after.append((span.stop, old[1], old[2]))
        places = slice(first, end)
        self._starts[places], self._stops[places], self._labels[places] = zip(
            *before, (start, stop, label), *after, strict=True
        )

    def _relabel_exact(self, first: int, end: int, span: Span, label: int) -> bool:
        """Relabel the mark of just this span, if there is one and it does not grow."""
        if label in self._labels[first:end]:  # which grows
            return False
        for i in range(first, end):
            if (self._starts[i], self._stops[i]) == span:
                self._labels[i] = label
                return True
        return False

    def cut(self, span: Span) -> Iterator[tuple[Span, int]]:
        """Cut a span where the label changes, in ascending order."""
        start, stop = span
        first, end = self._touching(span)
        for i in range(first, end):
            old_start, old_stop = self._starts[i], self._stops[i]
            if old_stop <= start or old_start >= stop or start == stop:
                continue
            if start < old_start:
                yield Span(start, old_start), self.blank
                start = old_start
            if start == span.start and old_stop >= stop:  # the usual case
                yield span, self._labels[i]
                return
            yield Span(start, min(old_stop, stop)), self._labels[i]
            start = min(old_stop, stop)
        if start < stop:
            yield Span(start, stop), self.blank

    def _touching(self, span: Span) -> tuple[int, int]:
        """The range of marks that overlap or adjoin a span."""
        start, stop = span
        first = bisect_left(self._stops, start)
        return first, bisect_right(self._starts, stop, first)
