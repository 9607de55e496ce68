"""Where the chunks of a schedule lie in a buffer, in bytes."""

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
    """How many elements each block of the buffer has, and how chunks map to bytes.

    ``counts`` is None if nobody cares where one block ends and the next begins. The
    spare buffers follow the buffer of the call, each as long as it.
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
        """Cut a span where one of so many equal parts of a buffer ends."""
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
        """The first element of a part: monotone, so that neighbours always touch."""
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
    """Where equal parts of a buffer begin and end, in bytes."""
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
        """Cut a span into runs, each with its place in the array, None if not there."""
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
    """Spans of the whole buffer in memory that each of several waves uses anew.

    Waves cut a span into as many parts, of which one needs room for the longest.
    """

    def __init__(self, spans: Iterable[Span], waves: int):
        self.nbytes = 0
        self._place: dict[Span, int] = {}
        for span in sorted(set(spans)):
            lines = -(-(span.stop - span.start) // CACHE_LINE)
            self._place[span] = self.nbytes
            self.nbytes += -(-lines // waves) * CACHE_LINE

    def cut(self, span: Span) -> Iterator[tuple[Span, int | None]]:
        """The span with its place, which is that of its part in each wave."""
        if span.start < span.stop:
            yield span, self._place.get(span)


class Marks:
    """Labels on parts of the buffer; what has none is labelled with the blank."""

    def __init__(self, blank: int):
        self.blank = blank
        self._marks: list[tuple[Span, int]] = []

    def mark(self, span: Span, label: int) -> None:
        """Give a span a label, whatever it had before."""
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
        """The first mark that overlaps or adjoins a span, and the one after."""
        first = bisect_left(self._marks, span.start, key=lambda mark: mark[0].stop)
        end = bisect_right(self._marks, span.stop, key=lambda mark: mark[0].start)
        return first, max(first, end)
