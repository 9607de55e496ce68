"""The time for which members let more processes join those that wait already."""

import time
from collections.abc import Callable
from math import inf

from collalgo.base.finalizers import Lock
from collalgo.elastic.interface import MembershipChange

#: Seconds that members wait for others after each process that waits to join, so that
#: those of a node, or of nodes that return at once, join together; and in all.
GATHERING_SECONDS, MOST_SECONDS = 0.3, 2.0


class Gathering:
    """The processes that wait to join, and the time of their admission.

    Parameters
    ----------
    read
        Returns the reason for the next round, as it is known now. It is read under a
        lock, so that no thread takes an earlier reason for a later one.
    """

    def __init__(self, read: Callable[[], MembershipChange | None]):
        self._read, self._lock = read, Lock()
        self._epoch = self._waiting = 0
        self._first = self._last = inf

    def note_change(self) -> MembershipChange | None:
        """Note the times of new processes; return the reason for the next round."""
        change = self._read()
        if change is None and not self._waiting:  # mostly
            return None
        with self._lock:
            change = self._read()
            epoch, waiting = (change.epoch, change.waiting) if change else (0, 0)
            if epoch != self._epoch:
                self._waiting = 0
            if waiting > self._waiting:
                self._last = time.monotonic()
                self._first = self._first if self._waiting else self._last
            self._epoch, self._waiting = epoch, waiting
        return change

    def is_over(self) -> bool:
        """Whether those that wait are admitted, though others may follow."""
        end = min(self._last + GATHERING_SECONDS, self._first + MOST_SECONDS)
        return self._waiting > 0 and time.monotonic() >= end
