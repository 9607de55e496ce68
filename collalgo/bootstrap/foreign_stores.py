"""Stores of other programs for an exchange: torch, horovodrun, a prefix of a store.

A process that can read the store knows the secret of the job that connects over it.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from collalgo.base.polling import awaited
from collalgo.bootstrap.folder import taken
from collalgo.bootstrap.store.protocol import ABSENT, ANSWER_SECONDS, KeyValueStore
from collalgo.errors import BootstrapError

#: Seconds between two reads of a key that does not exist yet.
POLL_SECONDS = 0.01


class SharedPrefix:
    """A key-value store that other programs use too; their keys are not changed.

    Closing it closes the store.

    Parameters
    ----------
    store
        The store, below the prefix of the job.
    where
        Its name in errors.
    """

    def __init__(self, store: KeyValueStore, where: str):
        self._store = store
        self._where = where
        self._written: set[str] = set()
        self._known: set[str] = set()

    def set(self, key: str, value: bytes) -> None:
        """Set a key that does not exist yet."""
        if not self._store.compare_set(key, value, ABSENT).succeeded:
            raise taken(self._where, key)
        self._written.add(key)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""
        found = self._store.get(key, timeout)
        self._known.add(key)
        return found

    def remove(self) -> None:
        """Remove the keys that this process has written or read."""
        self._clear(self._written | self._known)

    def take_back(self) -> None:
        """Remove the keys that this process has written."""
        self._clear(self._written)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _clear(self, keys: Iterable[str]) -> None:
        with suppress(BootstrapError):
            for key in keys:
                self._store.delete(key)


class TorchStore:
    """A store of torch as an :class:`~.store.protocol.ExchangeStore`.

    It may have the keys of an earlier world of these ranks, as the store of torchrun:
    all ranks count their worlds, and each world has keys of its own.

    Parameters
    ----------
    store
        The store.
    rank
        The rank of this process.
    """

    def __init__(self, store: Any, rank: int):
        self._store = store
        self._count = f"collalgo/worlds/{rank}"
        self._prefix = f"collalgo/{store.add(self._count, 1)}"

    def set(self, key: str, value: bytes) -> None:
        """Set a key that does not exist yet."""
        self._store.set(f"{self._prefix}/{key}", value)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""
        self._store.wait([f"{self._prefix}/{key}"], timedelta(seconds=timeout))
        return bytes(self._store.get(f"{self._prefix}/{key}"))

    def take_back(self) -> None:
        """Do not count a world that this rank has not joined, so that it may retry."""
        with suppress(RuntimeError):  # the store has ended
            self._store.add(self._count, -1)


class HorovodStore:
    """The key-value server that horovodrun keeps for its ranks.

    Values are put and got by HTTP, at ``/SCOPE/KEY``.
    """

    def __init__(self, address: str, port: int):
        self._url = f"http://{address}:{port}/collalgo/"

    def set(self, key: str, value: bytes) -> None:
        """Set a key that does not exist yet."""
        self._request(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""
        late = BootstrapError(
            f"horovodrun has no key {key} after {timeout:g} s; check that all ranks "
            "were started"
        )
        return awaited(lambda: self._request(key), timeout, POLL_SECONDS, late)

    def _request(self, key: str, value: bytes | None = None) -> bytes | None:
        """Put a value, or get the present one."""
        url = self._url + key.replace("/", "-")
        request = Request(url, value, method="GET" if value is None else "PUT")
        try:
            with urlopen(request, timeout=ANSWER_SECONDS) as answer:
                found: bytes = answer.read()
                return found
        except HTTPError as error:
            if error.code == 404 and value is None:
                return None
            raise BootstrapError(
                f"horovodrun refuses a request at {url}: {error}"
            ) from None
        except URLError as error:
            raise BootstrapError(
                f"horovodrun does not answer at {url} ({error.reason})"
            ) from None
