"""The calls of a rank in a trace, and its steps with their messages."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Track(NamedTuple):
    """The calls of a rank, and its steps with their messages.

    A step is a dict: call, slice, step, begun and ended in nanoseconds, and the sent
    and received messages, each with peer, lane and bytes.
    """

    start: int
    host: int
    calls: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    lost: int


def zeros(tracks: Sequence[Track]) -> list[int]:
    """The begin of the trace by the clock of each rank, in nanoseconds.

    Ranks on one host share a clock; hosts are aligned by their first ranks.
    """
    starts = dict[int, int]()
    return [starts.setdefault(track.host, track.start) for track in tracks]
