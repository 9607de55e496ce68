"""The layout of a buffer: the bytes of each chunk of a schedule."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from collalgo.schedule.chunk import Chunk

#: Chunks of long vectors begin at cache lines, so that no two ranks share one.
CACHE_LINE = 64
LONG_CHUNK = 4096


class Span(NamedTuple):
    """A run of bytes of the whole buffer."""

    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """The number of elements of each block of the buffer, and the bytes of each chunk.

    ``counts`` is None if the blocks belong to no rank, so their borders are free. The
    spare buffers follow the buffer of the call, each of the same length.
    """

    count: int
    itemsize: int
    blocks: int
    counts: tuple[int, ...] | None = None
    starts: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if self.counts is not None:
            object.__setattr__(self, "starts", (0, *accumulate(self.counts)))

    def span(self, chunk: Chunk) -> Span:
        """The bytes of a chunk."""
        spare = chunk.spare * self.count
        return Span(
            (spare + self._element(chunk.start, chunk.parts)) * self.itemsize,
            (spare + self._element(chunk.stop, chunk.parts)) * self.itemsize,
        )

    def block(self, number: int) -> Span:
        """The bytes of a block."""
        return self.span(Chunk(number, number + 1, self.blocks))

    def cut(self, span: Span, parts: int) -> Iterator[Span]:
        """Cut a span at the borders of the equal parts of a buffer."""
        length = self.whole.stop
        bounds = _bounds(self, parts)
        spare = span.start // length * length if length else 0
        start, stop = span.start - spare, span.stop - spare
        for bound in bounds[bisect_right(bounds, start) : bisect_left(bounds, stop)]:
            yield Span(start + spare, bound + spare)
            start = bound
        yield Span(start + spare, stop + spare)

    @property
    def whole(self) -> Span:
        return Span(0, self.count * self.itemsize)

    def _element(self, part: int, parts: int) -> int:
        """The first element of a part; monotone, so that adjacent parts touch."""
        if self.counts is not None:
            block, rest = divmod(part * self.blocks, parts)
            within = rest * self.counts[block] // parts if rest else 0
            return self.starts[block] + within
        element = part * self.count // parts
        if part == parts or self.count * self.itemsize < LONG_CHUNK * self.blocks:
            return element
        line = CACHE_LINE // self.itemsize
        return element // line * line


@lru_cache(maxsize=64)
def _bounds(layout: Layout, parts: int) -> list[int]:
    """The borders of equal parts of a buffer, in bytes."""
    return [layout.span(Chunk(0, i, parts)).stop for i in range(parts + 1)]


class Region:
    """The spans of the whole buffer that an array holds, one after the other."""

    def __init__(self, spans: Iterable[Span]):
        self.spans: list[Span] = []
        for span in sorted(spans):
            if self.spans and span.start <= self.spans[-1].stop:
                start, stop = self.spans.pop()
                self.spans.append(Span(start, max(stop, span.stop)))
            elif span.start < span.stop:
                self.spans.append(span)
        lengths = (span.stop - span.start for span in self.spans)
        self.offsets = [0, *accumulate(lengths)]

    @property
    def nbytes(self) -> int:
        return self.offsets[-1]

    def cut(self, span: Span) -> Iterator[tuple[Span, int | None]]:
        """Cut a span into runs, each with its offset in the array, or None."""
        start, stop = span
        number = max(bisect_right(self.spans, (start, start)) - 1, 0)
        while start < stop:
            mine = self.spans[number] if number < len(self.spans) else Span(stop, stop)
            if start < mine.start:
                end = min(mine.start, stop)
                yield Span(start, end), None
                start = end
            elif start < mine.stop:
                end = min(mine.stop, stop)
                yield Span(start, end), self.offsets[number] + start - mine.start
                start = end
            else:
                number += 1


class Reused:
    """Spans of the whole buffer in memory that is reused by each slice.

    Slices cut a span into equal parts; the memory holds the longest of them.
    """

    def __init__(self, spans: Iterable[Span], slices: int):
        self.nbytes = 0
        self._place: dict[Span, int] = {}
        for span in sorted(set(spans)):
            lines = -(-(span.stop - span.start) // CACHE_LINE)
            self._place[span] = self.nbytes
            self.nbytes += -(-lines // slices) * CACHE_LINE

    def cut(self, span: Span) -> Iterator[tuple[Span, int | None]]:
        """The span with its offset, the same for its part in each slice."""
        if span.start < span.stop:
            yield span, self._place.get(span)


class Marks:
    """Labels on parts of the buffer; parts without one have the label ``blank``."""

    def __init__(self, blank: int):
        self.blank = blank
        self._marks: list[tuple[Span, int]] = []

    def mark(self, span: Span, label: int) -> None:
        """Label a span, in place of its former labels."""
        if span.start >= span.stop:
            return
        first, end = self._touching(span)
        start, stop = span
        before, after = [], []
        for old, kept in self._marks[first:end]:
            if kept == label:
                start, stop = min(start, old.start), max(stop, old.stop)
                continue
            if old.start < span.start:
                before.append((Span(old.start, span.start), kept))
            if old.stop > span.stop:
                after.append((Span(span.stop, old.stop), kept))
        self._marks[first:end] = [*before, (Span(start, stop), label), *after]

    def cut(self, span: Span) -> Iterator[tuple[Span, int]]:
        """Cut a span where the label changes, in ascending order."""
        start = span.start
        first, end = self._touching(span)
        for old, label in self._marks[first:end]:
            if old.stop <= start or old.start >= span.stop or start == span.stop:
                continue
            if start < old.start:
                yield Span(start, old.start), self.blank
            yield Span(max(start, old.start), min(old.stop, span.stop)), label
            start = min(old.stop, span.stop)
        if start < span.stop:
            yield Span(start, span.stop), self.blank

    def _touching(self, span: Span) -> tuple[int, int]:
        """The range of marks that overlap or adjoin a span."""
        first = bisect_left(self._marks, span.start, key=lambda mark: mark[0].stop)
        end = bisect_right(self._marks, span.stop, key=lambda mark: mark[0].start)
        return first, max(first, end)
