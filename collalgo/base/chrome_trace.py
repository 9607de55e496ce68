"""Events of the format that Perfetto and ``chrome://tracing`` show.

A track for each rank; times are in microseconds. See "Trace Event Format" of the
Chromium project.
"""

from collections.abc import Iterable
from typing import Any

from collalgo.base import output_files
from collalgo.base.output_files import MARK

Event = dict[str, Any]

TRACE = output_files.of_json(
    "a trace", lambda found: found["otherData"]["maker"] == MARK
)


def document(events: Iterable[Event]) -> dict[str, Any]:
    """A file of events."""
    about = {"maker": MARK}
    return {"displayTimeUnit": "ns", "otherData": about, "traceEvents": list(events)}


def title(rank: int, name: str) -> Event:
    """What the track of a rank is called."""
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": rank,
            "args": {"name": name}}  # fmt: skip


def span(
    rank: int, name: str, begin: float, end: float, about: dict[str, Any] | None = None
) -> Event:
    """Something that a rank does from one time to another."""
    return {"ph": "X", "name": name, "pid": 0, "tid": rank, "ts": begin,
            "dur": end - begin, "args": about or {}}  # fmt: skip


def tail(rank: int, number: int, name: str, time: float) -> Event:
    """Where the arrow of a message begins, in the span of its sender."""
    return _end("s", rank, number, name, time)


def head(rank: int, number: int, name: str, time: float) -> Event:
    """Where the arrow of a message ends, in the span of its receiver."""
    return _end("f", rank, number, name, time)


def _end(phase: str, rank: int, number: int, name: str, time: float) -> Event:
    return {"ph": phase, "bp": "e", "id": number, "name": name, "cat": "message",
            "pid": 0, "tid": rank, "ts": time}  # fmt: skip
