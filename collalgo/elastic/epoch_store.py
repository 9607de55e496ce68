"""The store of a job for the members of an epoch that connect."""

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from collalgo.bootstrap.store.protocol import KeyValueStore, PendingValue, present
from collalgo.bootstrap.store.repeated import repeated

T = TypeVar("T")


class EpochStore:
    """The store of a job for the members of an epoch that connect.

    A store that fails may come back while the epoch lives: an etcd without a leader
    has one soon. So its requests are repeated; each has the same effect twice.

    Parameters
    ----------
    store
        Gives the store, which is another object after a loss.
    name
        The name of the store in errors.
    wait
        Waits for a value, at most some seconds.
    check
        Raises an error if the epoch has ended.
    seconds
        Seconds for which the store may fail.
    """

    def __init__(
        self,
        store: Callable[[], KeyValueStore],
        name: str,
        wait: Callable[[PendingValue, float], bytes],
        check: Callable[[], None],
        seconds: float,
    ):
        self._store, self._name = store, name
        self._wait, self._check, self._seconds = wait, check, seconds

    def set(self, key: str, value: bytes) -> object:
        """Set a key."""
        return self._repeated(lambda: self._store().set(key, value), self._seconds)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key that another member sets."""
        end = monotonic() + timeout

        def attempt() -> bytes:
            left = max(0.0, end - monotonic())
            return self._wait(self._store().expect(key), left)

        return self._repeated(attempt, timeout)

    def present(self, prefix: str) -> dict[str, bytes]:
        """The values of the keys with a prefix that exist now."""
        return self._repeated(lambda: present(self._store(), prefix), self._seconds)

    def _repeated(self, request: Callable[[], T], seconds: float) -> T:
        return repeated(request, seconds, self._name, self._check)
