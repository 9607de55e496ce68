"""Events in the trace format of Perfetto and ``chrome://tracing``.

One track per rank; times are in microseconds. Source: "Trace Event Format" of the
Chromium project.
"""

from collections.abc import Iterable
from typing import Any

from collalgo.base import output_files

Event = dict[str, Any]

TRACE = output_files.Format("a trace", endings=("json",))


def document(events: Iterable[Event]) -> dict[str, Any]:
    """The JSON document of some events."""
    about = {"maker": TRACE.mark}
    return {"displayTimeUnit": "ns", "otherData": about, "traceEvents": list(events)}


def title(rank: int, name: str) -> Event:
    """The event that names the track of a rank."""
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": rank,
            "args": {"name": name}}  # fmt: skip


def span(
    rank: int, name: str, begin: float, end: float, about: dict[str, Any] | None = None
) -> Event:
    """The event of an activity of a rank, from its begin to its end."""
    return {"ph": "X", "name": name, "pid": 0, "tid": rank, "ts": begin,
            "dur": end - begin, "args": about or {}}  # fmt: skip


def tail(rank: int, number: int, name: str, time: float) -> Event:
    """The event at the tail of a message's arrow, in the span of the sender."""
    return _end("s", rank, number, name, time)


def head(rank: int, number: int, name: str, time: float) -> Event:
    """The event at the head of a message's arrow, in the span of the receiver."""
    return _end("f", rank, number, name, time)


def _end(phase: str, rank: int, number: int, name: str, time: float) -> Event:
    return {"ph": phase, "bp": "e", "id": number, "name": name, "cat": "message",
            "pid": 0, "tid": rank, "ts": time}  # fmt: skip
