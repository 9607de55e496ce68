"""A trace as a page: a timeline with zoom and keys, and the table of its calls."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from collalgo.base import notebook, page
from collalgo.base.page import Cell
from collalgo.base.units import counted, human_time
from collalgo.comm.tracing.summary import Row, SlowCall, rows_of, slow_calls
from collalgo.comm.tracing.trace_file import Span, TraceError, TraceFile, read_trace

#: The most spans and messages of a page; of more, steps and messages are left out.
MOST_SPANS, MOST_ARROWS = 200_000, 200_000

#: The most rows of spans of a rank, for those that overlap.
MOST_LEVELS = 8

#: The longest text of a field of a record.
LONGEST = 300

#: The most bytes of a trace that a notebook shows, and its height in pixels.
MOST_IN_NOTEBOOKS, HEIGHT = 4 << 20, 560

KEYS = """<p class="hint">Click the timeline, then: <kbd>+</kbd> <kbd>-</kbd> or the
wheel zoom, <kbd>←</kbd> <kbd>→</kbd> or dragging pan, <kbd>0</kbd> shows all,
<kbd>n</kbd> <kbd>p</kbd> select the next and the previous span, <kbd>↑</kbd>
<kbd>↓</kbd> that of another rank, <kbd>Enter</kbd> zooms to it, <kbd>Esc</kbd> clears.
<kbd>/</kbd> filters the table.</p>"""

TIMELINE = """<div class="tools" role="toolbar" aria-label="timeline">
<button type="button" data-do="+">+</button>
<button type="button" data-do="-">-</button>
<button type="button" data-do="0">all</button>
<button type="button" data-do="p">previous</button>
<button type="button" data-do="n">next</button>
<button type="button" data-do="Enter">zoom to it</button>
</div>
<canvas class="timeline" tabindex="0" role="application"
 aria-label="timeline of the ranks; n and p select spans"></canvas>
<div class="detail" id="detail" aria-live="polite"></div>"""

TOO_MUCH = (
    f"The page shows at most {MOST_SPANS} calls and steps, calls first, and "
    f"{MOST_ARROWS} messages; Perfetto opens the whole trace."
)

#: Above the table of calls.
CAPTION = (
    "Mean time of a rank in all calls; less is better.",
    "A call waits until the last rank has entered it; the rest is transfer.",
    "Price and lower bound are sums of those of the calls, where they are known.",
)

#: The most slow calls that are listed.
MOST_SLOW = 20

COLUMNS = ("call", "calls", "elements", "time", "waiting", "transfer", "price", "bound",
           "last rank", "place")  # fmt: skip


class Trace:
    """A trace of calls, which notebooks show as a timeline.

    Parameters
    ----------
    path
        The file, written by :func:`collalgo.trace` or ``collalgo simulate
        --timeline``. It is read when it is shown.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @cached_property
    def _file(self) -> TraceFile:
        return read_trace(self.path)

    def summary(self) -> list[Row]:
        """The calls by collective and place, those that took longest first.

        Raises
        ------
        ValueError
            If the file is not a trace of collalgo.
        """
        return rows_of(self._file.spans)

    def slow_calls(self) -> list[SlowCall]:
        """The calls that took over twice their price, longest first, with the reason.

        Raises
        ------
        ValueError
            If the file is not a trace of collalgo.
        """
        return slow_calls(self._file.spans)

    def page(self) -> str:
        """The trace as a page, HTML without a network; raises as :meth:`summary`."""
        parts = [*_head(self._file), KEYS, TIMELINE, *_table(self.summary())]
        parts += _slow(self.slow_calls())
        scripts = [page.own("timeline.js", __package__)]
        return page.page(
            f"trace {self.path.name}", parts, scripts=scripts, data=_data(self._file)
        )

    @cached_property
    def _error(self) -> str:
        """Why the file is refused, or ""."""
        try:
            self.summary()
        except TraceError as error:
            return str(error)
        return ""

    def __repr__(self) -> str:
        if not self.path.is_file():
            return f"<Trace {self.path}, not written yet>"
        if self._error:
            return f"<Trace {self.path}, refused>"
        calls = sum(span.is_call for span in self._file.spans)
        ranks = counted(len(self._file.tracks), "rank")
        return f"<Trace {self.path}: {counted(calls, 'call')} on {ranks}>"

    def _repr_html_(self) -> str | None:
        return notebook.framed(self, self._obstacle, self.page, HEIGHT)

    def _obstacle(self) -> str:
        if not self.path.is_file():
            return "the trace is written at the end of its block, on rank 0"
        nbytes = self.path.stat().st_size
        if nbytes <= MOST_IN_NOTEBOOKS:
            return self._error
        return f"{nbytes} bytes are too large here; use collalgo trace view {self.path}"


def _head(found: TraceFile) -> Iterator[str]:
    """The numbers of a trace, and what the page leaves out."""
    calls = sum(span.is_call for span in found.spans)
    last = max((span.ended for span in found.spans), default=0.0)
    first = min((span.begun for span in found.spans), default=0.0)
    steps, messages = len(found.spans) - calls, len(found.arrows)
    counts = {"rank": len(found.tracks), "call": calls, "step": steps}
    words = [counted(number, noun) for noun, number in counts.items()]
    words.append(
        f"{counted(messages, 'message')} in {human_time((last - first) / 1e6)}"
    )
    yield page.lines([", ".join(words)])
    if len(found.spans) > MOST_SPANS or messages > MOST_ARROWS:
        yield page.lines([TOO_MUCH])


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """The calls by collective and place."""
    if rows:
        yield "<h2>Calls</h2>"
        yield page.lines(CAPTION)
        yield from page.table("calls", COLUMNS, [_cells(row) for row in rows])


def _slow(calls: Sequence[SlowCall]) -> Iterator[str]:
    """The calls that took over twice their price, with the likely reasons."""
    if calls:
        yield "<h2>Calls over twice their price</h2>"
        if len(calls) > MOST_SLOW:
            yield page.lines([f"The longest {MOST_SLOW} of {len(calls)}."])
        rows = [
            [Cell(c.name, is_text=True), Cell(c.why, is_text=True)]
            for c in calls[:MOST_SLOW]
        ]
        yield from page.table("slow", ("call", "why"), rows)


def _cells(row: Row) -> list[Cell]:
    times = row.seconds, row.waiting, row.seconds - row.waiting
    return [
        Cell(row.name, is_text=True),
        *(Cell(str(number), number) for number in (row.calls, row.elements)),
        *(Cell(human_time(seconds), seconds) for seconds in times),
        *(
            Cell("" if seconds is None else human_time(seconds), seconds)
            for seconds in (row.price, row.bound)
        ),
        Cell(row.last, is_text=True),
        Cell(row.place, is_text=True),
    ]


def _data(found: TraceFile) -> dict[str, Any]:
    """What the script draws: numbers of tracks instead of ranks, and of names."""
    track = {rank: i for i, rank in enumerate(sorted(found.tracks))}
    shown = sorted(found.spans, key=lambda s: (not s.is_call, s.begun))[:MOST_SPANS]
    names = {name: i for i, name in enumerate(dict.fromkeys(s.name for s in shown))}
    by_rank: dict[int, list[Span]] = {rank: [] for rank in track}
    for span in shown:
        by_rank[span.rank].append(span)
    return {
        "tracks": [found.tracks[rank] for rank in track],
        "names": list(names),
        "spans": [
            _fields(level, names[span.name], track[rank], span)
            for rank, spans in by_rank.items()
            for level, span in levels_of(spans)
        ],
        "arrows": [
            [track[a.sender], a.sent, track[a.receiver], a.received]
            for a in found.arrows[:MOST_ARROWS]
        ],
    }


def _fields(level: int, name: int, track: int, span: Span) -> list[Any]:
    """A span as the script reads it, with the numbers and short texts of its record."""
    about: dict[str, str | float] = {}
    for key, value in span.about.items():
        if isinstance(value, str):
            about[key] = value[:LONGEST]
        elif type(value) in (int, float) and isfinite(value):
            about[key] = value
    return [level, name, track, span.begun, span.ended - span.begun, about]


def levels_of(spans: list[Span]) -> Iterator[tuple[int, Span]]:
    """Each span with its row: the first that is free, below what contains it."""
    ends: list[float] = []
    for span in sorted(spans, key=lambda s: (s.begun, -s.ended)):
        free = (i for i, end in enumerate(ends) if end <= span.begun + 1e-6)
        level = next(free, len(ends))
        if level == len(ends) < MOST_LEVELS:
            ends.append(0.0)
        level = min(level, MOST_LEVELS - 1)
        ends[level] = span.ended
        yield level, span
