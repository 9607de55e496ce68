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
    the rank that mostly was the last. ``price`` and ``bound`` are the sums of those
    of the calls, and None if one is not known.
    """

    name: str
    elements: int
    place: str
    calls: int
    seconds: float
    waiting: float
    last: str
    price: float | None = None
    bound: float | None = None


class SlowCall(NamedTuple):
    """A call that took over twice its price: its name, its seconds, and the reason."""

    name: str
    seconds: float
    why: str


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


def slow_calls(spans: Sequence[Span]) -> list[SlowCall]:
    """The calls among some spans that took over twice their price, longest first."""
    found: dict[int, SlowCall] = {}
    for span in spans:
        if span.is_call and (why := str(span.about.get("slow") or "")):
            number, seconds = span.about["sequence"], (span.ended - span.begun) / 1e6
            name = f"{span.about['collective']} #{span.about.get('number', number)}"
            if number not in found or seconds > found[number].seconds:
                found[number] = SlowCall(name, seconds, why)
    return sorted(found.values(), key=lambda call: -call.seconds)


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
    figures = (_sum(figure, calls) for figure in ("price", "bound"))
    return Row(name, count, place, len(calls), seconds, waiting, share, *figures)


def _sum(figure: str, calls: Sequence[Sequence[Span]]) -> float | None:
    """The sum of a figure of some calls; None if one of them does not have it."""
    found = [spans[0].about.get(figure) for spans in calls]
    known = [float(f) for f in found if isinstance(f, float)]
    return sum(known) if len(known) == len(found) else None
