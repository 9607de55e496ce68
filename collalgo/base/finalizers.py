"""Finalizers that may take locks, wherever the garbage collector calls them.

The collector calls finalizers when any object is made: also in a thread that holds the
lock which the finalizer takes, or in the one that delivers what the finalizer waits
for. There they would deadlock. So objects that are released by :func:`finalize` are
guarded by :class:`Lock`, and threads that others wait for are :func:`serving`.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any
from weakref import finalize as weak_finalize

from collalgo.base.callbacks import run_callback
from collalgo.base.threads import start
from collalgo.errors import CollalgoError

Task = Callable[[], object]


class _OfThread(threading.local):
    """The locks and the finalizers of a thread.

    A finalizer may run before any line of its set-up, so that these are of the class.
    """

    held = 0  # locks, or on the way to hold
    serves = False
    postponed: deque[Task] | None = None  # made before the first lock is held


class _Helper:
    """A thread that runs the finalizers of threads which others wait for."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Task] = SimpleQueue()  # put() may interrupt itself
        self._starting = threading.Lock()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._starting:
            if self._thread is None:
                name = "collalgo finalizers"
                self._thread = start(Thread(target=self._run, name=name, daemon=True))

    def _run(self) -> None:
        while True:
            run_callback(self.tasks.get())


_here = _OfThread()
_helper = _Helper()


def finalize(
    owner: object, function: Callable[..., object], *args: Any
) -> "weak_finalize[..., Any]":
    """Call a function when ``owner`` is released, or soon after.

    It waits while the thread holds a :class:`Lock`; if the thread is :func:`serving`,
    another calls it.
    """
    return weak_finalize(owner, _call, function, *args)


def _call(function: Callable[..., object], *args: Any) -> None:
    if _here.serves:
        _helper.tasks.put(partial(function, *args))
    elif _here.held and _here.postponed is not None:
        _here.postponed.append(partial(function, *args))
    else:
        function(*args)


class Lock:
    """A lock for ``with``; no finalizer runs in the thread that holds it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Take the lock.

        Raises
        ------
        CollalgoError
            If the thread holds it: a signal handler calls what it has interrupted.
        """
        if self._is_held():
            raise CollalgoError(
                "the handler of a signal asks for what its own thread is changing, as "
                "the first message of a communicator or its end; make this call after "
                "the handler has returned"
            )
        if _here.postponed is None:
            _here.postponed = deque()
        _here.held += 1  # first, as the collector may run before the next line
        try:
            self._lock.acquire()
        except BaseException:  # of a signal's handler, maybe after the lock was taken
            if self._is_held():
                self._lock.release()
            _here.held -= 1
            raise

    def _is_held(self) -> bool:
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        _here.held -= 1
        while _here.postponed and not _here.held:
            run_callback(_here.postponed.popleft())


@contextmanager
def serving() -> Iterator[None]:
    """Leave the finalizers of this thread, which others wait for, to another thread."""
    _helper.start()
    _here.serves = True
    try:
        yield
    finally:
        _here.serves = False


def _forget() -> None:
    """In a forked child there is one thread, which holds no lock of its parent's."""
    _here.__dict__.clear()
    _helper.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_forget)
