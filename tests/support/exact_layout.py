"""Lowering for one exact length, in bytes: what templates are compared with."""

from bisect import bisect_left, bisect_right
from itertools import accumulate

from collalgo.engine.plan.layout import Layout, Span
from collalgo.engine.plan.lowering import Lowering
from collalgo.engine.plan.template import ends_of
from collalgo.schedule import trace
from collalgo.schedule.chunk import Chunk

CACHE_LINE, LONG_CHUNK = 64, 4096


class ExactGrid:
    """A grid whose parts are the bytes of a buffer."""

    def __init__(self, layout):
        self.layout = layout
        self.parts, self.blocks = max(layout.nbytes, 1), 1
        self.starts = layout.counts and (0, *accumulate(layout.counts))

    def span(self, chunk):
        """The bytes of a chunk."""
        spare = chunk.spare * self.layout.count
        return Span(
            (spare + self.element(chunk.start, chunk.parts)) * self.layout.itemsize,
            (spare + self.element(chunk.stop, chunk.parts)) * self.layout.itemsize,
        )

    def element(self, part, parts):
        """The first element of a part; monotone, so that adjacent parts touch."""
        layout = self.layout
        if layout.counts is not None:
            block, rest = divmod(part * layout.blocks, parts)
            within = rest * layout.counts[block] // parts if rest else 0
            return self.starts[block] + within
        element = part * layout.count // parts
        if part == parts or layout.nbytes < LONG_CHUNK * layout.blocks:
            return element
        line = CACHE_LINE // layout.itemsize
        return element // line * line

    def block(self, number):
        """The bytes of a block."""
        return self.span(Chunk(number, number + 1, self.layout.blocks))

    @property
    def whole(self):
        return Span(0, self.layout.nbytes)

    def cut(self, span, pieces):
        """Cut a span at the borders of the equal pieces of a buffer."""
        length = self.layout.nbytes
        bounds = [self.span(Chunk(0, i, pieces)).stop for i in range(pieces + 1)]
        spare = span.start // length * length if length else 0
        start, stop = span.start - spare, span.stop - spare
        for bound in bounds[bisect_right(bounds, start) : bisect_left(bounds, stop)]:
            yield Span(start + spare, bound + spare)
            start = bound
        yield Span(start + spare, stop + spare)


def exact_plan(key, layout):
    """The plan of a template's key, lowered for this length alone."""
    grid = ExactGrid(layout)
    ends = ends_of(key.collective, key.root, grid, key.rank, key.size)
    shared = key.collective == "allreduce"
    lowering = Lowering(grid, key.rank, key.size, *ends, key.slicing, key.hosts)
    steps = trace(key.schedule, key.rank, key.size, key.root)
    lowered = lowering.lower(steps, key.averaging, shared)
    return lowered.plan(Layout(layout.nbytes, 1, 1, (layout.nbytes,)))
