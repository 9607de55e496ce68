"""Bounded caches: dictionaries that keep the newest entries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, local
from typing import Any, TypeVar

#: The most entries of a cache; the oldest are evicted.
REMEMBERED = 512


class Computing:
    """A lock of threads that compute shared results: proofs, prices, decisions.

    It is one lock, as all of these run schedules of users, which may request any other
    result.
    """

    def __init__(self) -> None:
        self._lock, self._of_thread = RLock(), local()

    def __enter__(self) -> None:
        if not hasattr(self._of_thread, "is_without_lock"):
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if not hasattr(self._of_thread, "is_without_lock"):
            self._lock.release()

    @contextmanager
    def without_lock(self) -> Iterator[None]:
        """Let this thread compute results of its own, for which no other waits."""
        self._of_thread.is_without_lock = True
        try:
            yield
        finally:
            del self._of_thread.is_without_lock


#: Held by a thread that computes shared results.
computing = Computing()

Value = TypeVar("Value")


def make_room(remembered: dict[Any, Any], most: int = REMEMBERED) -> None:
    """Evict the oldest entries beyond a number."""
    while len(remembered) > most:
        del remembered[next(iter(remembered))]


def recalled(
    remembered: dict[Any, Value], key: Any, make: Callable[[Any], Value]
) -> Value:
    """The cached value of a key; a miss calls ``make(key)`` and caches the result.

    A key that cannot be hashed (an op of mpi4py, a list of algorithms) is not cached.
    """
    try:
        return remembered[key]
    except KeyError:
        named = True
    except TypeError:
        named = False
    found = make(key)
    if named:
        remembered[key] = found
    make_room(remembered)
    return found
