"""Detects the death of ranks for whose flags the streams wait."""

import logging
import os
import select
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Thread, current_thread

from collalgo.base.threads import start

#: Seconds between two releases of the streams; each ends at least one call.
AGAIN = 0.02

log = logging.getLogger("collalgo")


class Watch:
    """Releases the streams of a rank once the process of another rank has ended.

    Parameters
    ----------
    processes
        The processes of the other ranks, by rank.
    end_waits
        Ends all waits on the streams of this rank.
    """

    def __init__(self, processes: Mapping[int, int], end_waits: Callable[[], None]):
        self._end_waits = end_waits
        self._over = Event()
        self._ranks: dict[int, int] = {}
        for rank, process in processes.items():
            with suppress(OSError):  # it has ended: the next call reports it
                self._ranks[os.pidfd_open(process)] = rank
        self._woken, self._wake = os.pipe()
        self._thread = Thread(target=self._serve, name="collalgo devices", daemon=True)
        start(self._thread)

    def _serve(self) -> None:
        poll = select.poll()
        for descriptor in (self._woken, *self._ranks):
            poll.register(descriptor, select.POLLIN)
        ended = [descriptor for descriptor, _ in poll.poll()]
        if self._woken in ended:
            return
        log.error(
            "rank %d has died: the results of unfinished calls on devices are invalid",
            self._ranks[ended[0]],
        )
        while not self._over.wait(AGAIN):
            self._end_waits()

    def close(self) -> None:
        """Stop watching."""
        if self._over.is_set():
            return
        self._over.set()
        os.write(self._wake, b"\0")
        if current_thread() is not self._thread:
            self._thread.join()
        for descriptor in (self._woken, self._wake, *self._ranks):
            os.close(descriptor)
