"""Sum up a trace: the time of the calls, in waiting and in transfer."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collalgo.comm.tracing.trace_file import Span, read_trace


class Row(NamedTuple):
    """Calls with one name, number of elements and place.

    ``seconds`` and ``waiting`` are means over the ranks, for all calls together.

    ``waiting`` is the part until the last rank had entered the call, and ``last``
    the rank that mostly was the last.
    """

    name: str
    elements: int
    place: str
    calls: int
    seconds: float
    waiting: float
    last: str


def summary(path: Path) -> list[Row]:
    """The calls of a trace, those that took longest first.

    Raises
    ------
    TraceError
        If the file is not a trace of collalgo.
    """
    return rows_of(read_trace(path).spans)


def rows_of(spans: Sequence[Span]) -> list[Row]:
    """The calls among some spans, those that took longest first."""
    calls: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        if span.is_call:
            calls[span.about["sequence"]].append(span)
    groups: dict[tuple[str, int, str], list[list[Span]]] = defaultdict(list)
    for each in calls.values():
        about = min(each, key=lambda span: span.rank).about
        name = f"{about['collective']} ({about['algorithm']})"
        groups[name, about["count"], str(about.get("place") or "")].append(each)
    rows = [_row(*key, calls) for key, calls in groups.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def _row(name: str, count: int, place: str, calls: Sequence[Sequence[Span]]) -> Row:
    seconds = waiting = 0.0
    late: Counter[int] = Counter()
    for spans in calls:
        last = max(spans, key=lambda span: span.begun)
        late[last.rank] += 1
        for span in spans:
            seconds += (span.ended - span.begun) / len(spans) / 1e6
            ready = min(last.begun, span.ended)
            waiting += max(ready - span.begun, 0.0) / len(spans) / 1e6
    rank, times = late.most_common(1)[0]
    share = f"{rank} ({times} of {len(calls)})"
    return Row(name, count, place, len(calls), seconds, waiting, share)
