"""Bounded caches: of the newest entries, and of the values that were used last."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import RLock, local
from typing import Any, Generic, TypeVar

from collalgo.base.finalizers import Lock

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


class RecentlyUsed(Generic[Value]):
    """The values that were used last, of about some bytes together.

    Parameters
    ----------
    most
        The most bytes; the last value is kept whatever its size.
    nbytes
        The bytes of a value, which may grow: it is measured whenever it is used.
    """

    def __init__(self, most: int, nbytes: Callable[[Value], int]):
        self._most, self._nbytes = most, nbytes
        self._values: dict[Hashable, Value] = {}
        self._sizes: dict[Hashable, int] = {}
        self._total = self._added = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made if it is not kept."""
        with self._lock:
            if key in self._values:
                found = self._values.pop(key)
                self._add(key, found)
                return found
        made = make()
        with self._lock:
            if key not in self._values:  # else another thread has made it meanwhile
                self._add(key, made)
            return self._values[key]

    def _add(self, key: Hashable, value: Value) -> None:
        """Add a value last, and evict the first ones beyond the most bytes."""
        self._added += key not in self._sizes
        self._total -= self._sizes.pop(key, 0)
        self._values[key], self._sizes[key] = value, self._nbytes(value)
        self._total += self._sizes[key]
        if 2 * self._added > len(self._values):
            self._measure()
        while self._total > self._most and len(self._values) > 1:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._total -= self._sizes.pop(oldest)

    def _measure(self) -> None:
        """Measure all values again: once for half as many new ones as there are."""
        self._sizes = {key: self._nbytes(value) for key, value in self._values.items()}
        self._total, self._added = sum(self._sizes.values()), 0
