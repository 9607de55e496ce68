"""A trace that was written before, as ``collalgo.trace`` and ``simulate`` write it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.base.json_files import read_json
from collalgo.base.seal import MAKER

#: The most ranks of a trace.
MOST_RANKS = 1 << 20

#: What the record of a call must have.
OF_CALLS = (("sequence", int), ("count", int), ("collective", str), ("algorithm", str))

#: The largest time of a trace, in microseconds.
MOST_TIME = 1e15


class TraceError(ValueError):
    """A file is not a trace of collalgo."""


class Span(NamedTuple):
    """A call, a step or a message of a rank; times in microseconds.

    ``about`` holds what is known of it; of a call that is its record.
    """

    rank: int
    begun: float
    ended: float
    name: str
    about: dict[str, Any]

    @property
    def is_call(self) -> bool:
        return "collective" in self.about


class Arrow(NamedTuple):
    """A message from a rank at a time to another at another time, in microseconds."""

    sender: int
    sent: float
    receiver: int
    received: float


class TraceFile(NamedTuple):
    """The names of the tracks of ranks, their spans, and the messages."""

    tracks: dict[int, str]
    spans: list[Span]
    arrows: list[Arrow]


def read_trace(path: Path) -> TraceFile:
    """The content of a file.

    Raises
    ------
    TraceError
        If the file is not a trace of collalgo.
    """
    try:
        return _content(read_json(path))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise TraceError(f"{path} is not a trace of collalgo: {what}") from None


def _content(document: Any) -> TraceFile:
    if MAKER not in document["otherData"]["maker"]:
        raise ValueError("another program has made it")
    events = document["traceEvents"]
    found = TraceFile({}, [], [])
    for event in events:
        rank = _rank(event)
        if event["ph"] == "M":
            found.tracks[rank] = str(event["args"]["name"])
        elif event["ph"] == "X":
            found.tracks.setdefault(rank, f"rank {rank}")
            found.spans.append(_span(rank, event))
    arrows = _arrows(events)
    found.arrows.extend(
        one for one in arrows if {one.sender, one.receiver} <= found.tracks.keys()
    )
    return found


def _rank(event: Any) -> int:
    rank = event["tid"]
    if type(rank) is not int or not 0 <= rank < MOST_RANKS:
        raise ValueError(f"a track is {rank!r:.40}")
    return rank


def _time(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= MOST_TIME:
        raise ValueError(f"a time is {value!r:.40}")
    return float(value)


def _span(rank: int, event: Any) -> Span:
    begun, took = _time(event["ts"]), max(_time(event["dur"]), 0.0)
    about = event.get("args") or {}
    if not isinstance(about, dict):
        raise ValueError(f"the arguments of an event are {about!r:.40}")  # noqa: TRY004
    if "collective" in about:
        for name, kind in OF_CALLS:
            if type(about.get(name)) is not kind:
                raise ValueError(f"{name} of a call is {about.get(name)!r:.40}")
    return Span(rank, begun, begun + took, str(event["name"]), about)


def _arrows(events: Any) -> Iterator[Arrow]:
    """The messages both of whose ends are in the trace."""
    tails = {e["id"]: e for e in events if e["ph"] == "s"}
    for event in events:
        if event["ph"] == "f" and event["id"] in tails:
            tail = tails[event["id"]]
            yield Arrow(
                _rank(tail), _time(tail["ts"]), _rank(event), _time(event["ts"])
            )
