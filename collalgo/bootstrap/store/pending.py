"""Waits for a key, and posts, for stores that only answer requests."""

from collections.abc import Callable
from concurrent.futures import Future, TimeoutError as TooLate
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Protocol

from collalgo.base.finalizers import Lock
from collalgo.base.threads import start
from collalgo.bootstrap.store.protocol import Entry, NotSet, StoreError

#: Seconds between the first two reads of a key that another process is to set, and the
#: most: members of an exchange set theirs at about the same time.
FIRST_POLL_SECONDS, POLL_SECONDS = 0.002, 0.05

#: Seconds that posted changes have when the store is closed.
DRAIN_SECONDS = 2.0


class Readable(Protocol):
    """A store whose keys can be read."""

    def read(self, key: str) -> Entry | None:
        """The present value of a key, if it exists."""


class Expected:
    """The value of a key that another process is to set, read at intervals."""

    def __init__(self, store: Readable, key: str):
        self._store, self._key = store, key
        self._failure: Future[None] = Future()

    def result(self, timeout: float) -> bytes:
        """Wait for the value; NotSet if the key is not set in time."""
        deadline, pause = monotonic() + timeout, FIRST_POLL_SECONDS
        while (entry := self._store.read(self._key)) is None:
            if monotonic() > deadline:
                raise NotSet(self._key, timeout)
            with suppress(TooLate):
                self._failure.result(pause)
            pause = min(2 * pause, POLL_SECONDS)
        return entry.value

    def fail(self, error: BaseException) -> None:
        """Make ``result`` raise an error."""
        if not self._failure.done():
            self._failure.set_exception(error)


class Posts:
    """Requests that a thread carries out in their order; errors are dropped."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def put(self, request: Callable[[], object]) -> None:
        """Carry out a request soon."""
        with self._lock:
            if self._thread is None:
                self._thread = start(Thread(target=self._run, daemon=True))
        self._requests.put(request)

    def close(self) -> None:
        """Carry out all pending requests, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._requests.put(None)
            thread.join(DRAIN_SECONDS)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            with suppress(StoreError):
                request()
