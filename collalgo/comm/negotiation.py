"""The order in which ranks reduce arrays that each of them adds in an order of its own.

As in Horovod, rank 0 coordinates: each rank sends it the names of its arrays, and it
answers all ranks with the names that every rank has added, the same for all. This
module sends nothing; :mod:`~collalgo.comm.negotiated_bucket` does.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LOG = logging.getLogger("collalgo")

#: Seconds that an array which every rank has added waits for others to share its call.
CYCLE_SECONDS = 0.001

#: The most names that a message shows.
SHOWN_NAMES = 5


class Signature(NamedTuple):
    """The properties of an array with one name that must be equal on all ranks."""

    dtype: str
    elements: int

    def __str__(self) -> str:
        return f"{self.elements} elements of {self.dtype}"


class Failure(NamedTuple):
    """The reason why the arrays cannot be reduced.

    Attributes
    ----------
    kind : str
        ``mismatch``, ``timeout`` or ``peer``.
    text : str
        The reason.
    missing : sequence of int
        The ranks that others wait for, or that have left.
    """

    kind: str
    text: str
    missing: Sequence[int] = ()


class Entry:
    """An array that some ranks have added.

    Parameters
    ----------
    name
        Its name.
    signature
        Its properties, as the first rank has reported them.
    nbytes
        Its length.
    since
        When that rank has added it.
    """

    def __init__(self, name: str, signature: Signature, nbytes: int, since: float):
        self.name, self.signature, self.nbytes = name, signature, nbytes
        self.since = self.shown = since
        self.ranks: list[int] = []


class Coordinator:
    """The arrays of all ranks, as rank 0 tracks them.

    Parameters
    ----------
    size
        The number of ranks.
    limit
        Bytes of a call that joins several arrays.
    stall_seconds
        Seconds after which ranks that others wait for are reported.
    timeout
        Seconds after which they are an error.
    """

    def __init__(self, size: int, limit: int, stall_seconds: float, timeout: float):
        self._size, self._limit = size, limit
        self._stall_seconds, self._timeout = stall_seconds, timeout
        self._open: dict[str, Entry] = {}  # those that not every rank has added
        self._ready: list[Entry] = []
        self._due = 0.0
        self._left: dict[int, str] = {}
        self.failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether all ranks have left."""
        return len(self._left) == self._size

    def add(
        self, rank: int, name: str, signature: Signature, nbytes: int, now: float
    ) -> None:
        """Note that a rank has added an array."""
        entry = self._open.get(name)
        if entry is None:
            entry = self._open[name] = Entry(name, signature, nbytes, now)
        elif signature != entry.signature:
            self.failure = Failure(
                "mismatch",
                f"allreduce: rank {rank} added {name!r} with {signature} but rank "
                f"{entry.ranks[0]} with {entry.signature}; every rank must add the "
                "same",
            )
        entry.ranks.append(rank)
        if len(entry.ranks) == self._size:
            del self._open[name]
            if not self._ready:
                self._due = now + CYCLE_SECONDS
            self._ready.append(entry)
        self._check_left()

    def leave(self, rank: int, reason: str) -> None:
        """Note that a rank adds no more arrays; with a reason it has failed."""
        self._left[rank] = reason
        if reason:
            text = f"rank {rank} has left the bucket: {reason}"
            self.failure = Failure("peer", text, (rank,))
        self._check_left()

    def _check_left(self) -> None:
        """Fail if a rank has left without an array that others wait for."""
        if self.failure is not None:
            return
        for entry in self._open.values():
            gone = [rank for rank in self._left if rank not in entry.ranks]
            if gone:
                text = (
                    f"allreduce: ranks {entry.ranks} added {entry.name!r}, but rank "
                    f"{gone[0]} has closed the bucket without it"
                )
                self.failure = Failure("peer", text, gone)
                return

    def seconds_left(self, now: float) -> float | None:
        """Seconds until arrays are due to be reduced; None if no arrays wait."""
        return max(self._due - now, 0.0) if self._ready else None

    def calls(self, now: float) -> Iterator[list[str]]:
        """The names of the arrays of each call that is due, in the order of calls."""
        if not self._ready or now < self._due:
            return
        ready, self._ready = self._ready, []
        batches: list[list[Entry]] = []
        latest: dict[str, list[Entry]] = {}
        for entry in ready:
            batch = latest.get(entry.signature.dtype)
            if batch is None or self._is_full(batch, entry):
                batch = latest[entry.signature.dtype] = []
                batches.append(batch)
            batch.append(entry)
        for batch in batches:
            yield [entry.name for entry in batch]

    def _is_full(self, batch: Sequence[Entry], entry: Entry) -> bool:
        return sum(each.nbytes for each in batch) + entry.nbytes > self._limit

    def look(self, now: float) -> None:
        """Report the ranks that others wait for, and fail if that takes too long."""
        late = [e for e in self._open.values() if now - e.since >= self._timeout]
        if late and self.failure is None:
            missing = self._missing(late)
            text = (
                f"allreduce: within {self._timeout:g} s ranks {missing} have not added "
                f"{_names(late)}, which others wait for"
            )
            self.failure = Failure("timeout", text, missing)
        stalled = [
            e for e in self._open.values() if now - e.shown >= self._stall_seconds
        ]
        if stalled:
            _LOG.warning(self._report(stalled, now))
        for entry in stalled:
            entry.shown = now

    def _report(self, stalled: Sequence[Entry], now: float) -> str:
        waited = max(now - entry.since for entry in stalled)
        lines = [
            f"  {entry.name!r}: added by ranks {sorted(entry.ranks)}, not by ranks "
            f"{self._missing([entry])}"
            for entry in stalled[:SHOWN_NAMES]
        ]
        more = len(stalled) - SHOWN_NAMES
        further = [f"  and {more} more"] if more > 0 else []
        head = f"bucket: some ranks have waited for others for {waited:.0f} s"
        return "\n".join([head, *lines, *further])

    def _missing(self, entries: Sequence[Entry]) -> list[int]:
        """The ranks that have not added one of some arrays."""
        everyone = range(self._size)
        return [r for r in everyone if any(r not in entry.ranks for entry in entries)]


def _names(entries: Sequence[Entry]) -> str:
    shown = ", ".join(repr(entry.name) for entry in entries[:SHOWN_NAMES])
    more = len(entries) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
