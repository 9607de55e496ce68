"""The calls of a rank in a trace, and its steps with their messages."""

from collections.abc import Iterable, Iterator, Sequence
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


def zeros(starts: Iterable[int], hosts: Iterable[int]) -> list[int]:
    """One moment by the clock of each rank, which has read it, in nanoseconds.

    Ranks on one host share a clock; hosts are aligned by their first ranks.
    """
    first = dict[int, int]()
    pairs = zip(starts, hosts, strict=True)
    return [first.setdefault(host, start) for start, host in pairs]


def with_zeros(tracks: Sequence[Track]) -> Iterator[tuple[Track, int]]:
    """Each track with the begin of the trace by its clock."""
    found = zeros((one.start for one in tracks), (one.host for one in tracks))
    return zip(tracks, found, strict=True)
