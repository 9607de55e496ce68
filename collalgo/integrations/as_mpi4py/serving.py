"""The thread that handles messages while the program makes no call for messages."""

import time
from threading import Thread
from typing import Any

from collalgo.base.finalizers import Lock
from collalgo.base.threads import start
from collalgo.integrations.as_mpi4py.errors import MpiException

#: Seconds: the first and the longest pause between two polls of messages that wait, the
#: pause while the program makes calls, and the time without messages after which the
#: thread ends.
FIRST_PAUSE, LONGEST_PAUSE, CALLS_PAUSE, IDLE = 5e-5, 2e-3, 5e-3, 1.0


class Serving:
    """The thread of the messages of this process.

    Parameters
    ----------
    matching
        The messages.
    """

    def __init__(self, matching: Any):
        self._matching, self._lock = matching, Lock()
        self._calls = 0
        self._runs = self._listens = False

    def count_call(self) -> None:
        """Record that the program makes a call, and restart the thread if it ended."""
        self._calls += 1
        if not self._runs:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._runs:
                return
            if not self._listens:
                self._matching.listen()
                self._listens = True
            self._runs = True
            try:
                start(Thread(target=self._run, name="mpi4py messages", daemon=True))
            except BaseException:
                self._runs = False
                raise

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            self._runs = False  # the next call starts another thread
            if not isinstance(error, MpiException):  # the calls of the program raise it
                raise

    def _serve(self) -> None:
        """Handle messages until there have been none for some time."""
        seen, idle, pause = self._calls, 0.0, CALLS_PAUSE
        while idle < IDLE or not self._may_end(seen):
            time.sleep(pause)
            idle += pause
            if self._calls != seen:
                seen, idle, pause = self._calls, 0.0, CALLS_PAUSE
            elif self._matching.is_waiting:
                idle, pause = 0.0, self._look(pause)
            else:
                pause = CALLS_PAUSE

    def _look(self, pause: float) -> float:
        """Handle arrived messages; return the seconds until the next poll."""
        self._matching.poll()
        if pause == LONGEST_PAUSE:
            self._matching.end_lost()
        return FIRST_PAUSE if pause == CALLS_PAUSE else min(1.1 * pause, LONGEST_PAUSE)

    def _may_end(self, seen: int) -> bool:
        """Whether the program has made no call since; the next one starts a thread."""
        self._runs = False
        if self._calls == seen:
            return True
        with self._lock:
            is_replaced, self._runs = self._runs, True
        return is_replaced
