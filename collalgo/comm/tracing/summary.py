"""Sum up a trace: the time of the calls, in waiting and in transfer."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.base.json_files import read_json
from collalgo.base.seal import MAKER


class TraceError(ValueError):
    """A file is not a trace of collalgo."""


class Span(NamedTuple):
    """A call of a rank; times in microseconds."""

    rank: int
    begun: float
    ended: float
    name: str
    elements: int
    place: str


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
    try:
        calls = _calls(read_json(path))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is not a trace of collalgo ({error})") from None
    groups: dict[tuple[str, int, str], list[list[Span]]] = defaultdict(list)
    for spans in calls.values():
        first = min(spans, key=lambda span: span.rank)
        groups[first.name, first.elements, first.place].append(spans)
    rows = [_row(*key, calls) for key, calls in groups.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def _calls(document: Any) -> dict[int, list[Span]]:
    """The spans of each call by its place in the sequence."""
    if MAKER not in document["otherData"]["maker"]:
        raise ValueError("another program has made it")
    calls: dict[int, list[Span]] = defaultdict(list)
    for event in document["traceEvents"]:
        about = event.get("args", {})
        if event["ph"] == "X" and "collective" in about:
            calls[int(about["sequence"])].append(_span(event, about))
    return calls


def _span(event: dict[str, Any], about: dict[str, Any]) -> Span:
    """The call of an event."""
    begun, took = float(event["ts"]), float(event["dur"])
    name = f"{about['collective']} ({about['algorithm']})"
    place = str(about.get("place") or "")
    return Span(
        int(event["tid"]), begun, begun + took, name, int(about["count"]), place
    )


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
