"""Heartbeats of leases in a folder: a file of each, which its holder rewrites.

Each process observes the others by its own monotonic clock: a lease has ended when its
file has not changed for the seconds of the lease, whatever any wall clock says. The
holder keeps its file locked, so the end of its process is seen at once.
"""

import fcntl
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from collalgo.base import owned

#: Seconds that an observer waits longer than the lease, as it checks at intervals.
MARGIN = 0.3

#: Seconds between two checks after which the observer was itself paused.
PAUSE_SECONDS = 1.0


class _Beat(NamedTuple):
    """The content of a file, and the time at which this process first saw it."""

    content: bytes
    since: float


class Heartbeats:
    """The files of leases, of this process and of others."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._held: dict[int, tuple[int, int]] = {}
        self._seen: dict[int, _Beat] = {}
        self._looked = time.monotonic()

    def begin(self, lease: int) -> None:
        """Hold the file of a new lease."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = owned.private(str(self._path(lease)), flags)
        self._held[lease] = descriptor, 0
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.beat(lease)

    def beat(self, lease: int) -> None:
        """Renew the heartbeat of the holder."""
        descriptor, count = self._held[lease]
        self._held[lease] = descriptor, count + 1
        os.pwrite(descriptor, b"%020d" % (count + 1), 0)
        os.fsync(descriptor)  # so that other hosts see it

    def end(self, lease: int) -> None:
        """Remove the file of a lease that has ended."""
        descriptor, _ = self._held.pop(lease, (-1, 0))
        self._seen.pop(lease, None)
        try:
            self._path(lease).unlink(missing_ok=True)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def ended(self, leases: Mapping[int, float]) -> list[int]:
        """Those of some leases that this process has observed to end."""
        now = time.monotonic()
        if now - self._looked > PAUSE_SECONDS:  # it has not observed the others
            self._seen.clear()
        self._looked = now
        self._forget(self._seen.keys() - leases.keys())
        return [
            lease
            for lease, seconds in leases.items()
            if self._is_silent(lease, seconds + MARGIN, now) or self._is_free(lease)
        ]

    def _forget(self, leases: Iterable[int]) -> None:
        for lease in list(leases):
            self._seen.pop(lease)

    def _is_silent(self, lease: int, seconds: float, now: float) -> bool:
        """Whether the file of a lease has not changed for some seconds."""
        content = b""
        try:
            with suppress(FileNotFoundError):
                content = self._path(lease).read_bytes()
        except OSError:  # this process cannot observe it now, as without descriptors
            self._seen.pop(lease, None)
            return False
        seen = self._seen.get(lease)
        if seen is None or seen.content != content:
            self._seen[lease] = _Beat(content, now)
            return False
        return now - seen.since > seconds

    def _is_free(self, lease: int) -> bool:
        """Whether the process that held a lease has ended."""
        if lease in self._held:
            return False
        try:
            descriptor = os.open(self._path(lease), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False  # silence will tell
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _path(self, lease: int) -> Path:
        return self._folder / f"lease-{lease:016x}"
