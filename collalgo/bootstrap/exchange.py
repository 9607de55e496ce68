"""Exchanges of small texts among processes that know their ranks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from collalgo.bootstrap.store.protocol import ExchangeStore, ListedStore, NotSet
from collalgo.errors import BootstrapError


class ExchangeGroup(Protocol):
    """Processes that exchange texts; all of them call the same methods in one order.

    Attributes
    ----------
    rank, size : int
        The rank of this process, and the number of processes.
    """

    rank: int
    size: int

    def allgather(self, text: str) -> list[str]:
        """The texts of all processes, in the order of their ranks."""

    def broadcast(self, text: str) -> str:
        """The text of rank 0."""


def values_of(
    store: ExchangeStore, prefix: str, count: int, timeout: float
) -> Iterator[bytes]:
    """The values of some keys, a prefix and a number from 0 on, each once it is set."""
    if isinstance(store, ListedStore):
        return listed_values(store, prefix, count, lambda key: store.get(key, timeout))
    return (store.get(f"{prefix}{number}", timeout) for number in range(count))


def listed_values(
    store: ListedStore, prefix: str, count: int, wait: Callable[[str], bytes]
) -> Iterator[bytes]:
    """The values of :func:`values_of`, of which ``wait`` waits for one.

    It lists all that are set at first, and again after 1, 2, 4, 8, ... waits: a request
    for each value would take a while, and so would a list of all after each wait.
    """
    known: dict[str, bytes] = {}
    next_waits, waits = 1, 0  # after the next listing, and before it
    for key in (f"{prefix}{number}" for number in range(count)):
        if key not in known and not waits:
            known = store.present(prefix)
            next_waits, waits = 2 * next_waits, next_waits
        if key in known:
            yield known[key]
        else:
            waits -= 1
            yield wait(key)


class SizesDiffer(BootstrapError):
    """Two processes of a job have different numbers of ranks."""


class StoreExchange:
    """An exchange over a store, for one allgather and one broadcast.

    Each text is preceded by the number of processes, according to its writer.

    Parameters
    ----------
    store
        The store that the processes share.
    rank, size
        The rank of this process, and the number of processes.
    timeout
        Seconds to wait for each of the others.
    name
        The prefix of the keys of this exchange.
    """

    def __init__(
        self, store: ExchangeStore, rank: int, size: int, timeout: float, name: str = ""
    ):
        self.rank = rank
        self.size = size
        self._store = store
        self._timeout = timeout
        self._name = name

    def allgather(self, text: str) -> list[str]:
        """The texts of all processes, in the order of their ranks."""
        self.contribute(text)
        return self.collect()

    def contribute(self, text: str) -> None:
        """The first half of an allgather: do not wait for the others."""
        self._store.set(f"{self._prefix}{self.rank}", f"{self.size} {text}".encode())

    def collect(self) -> list[str]:
        """The second half of an allgather: wait for the others.

        Raises
        ------
        SizesDiffer
            If a process has another number of processes.
        BootstrapError
            If a process does not join in time.
        """
        values = values_of(self._store, self._prefix, self.size, self._timeout)
        return [self._contribution(values, other) for other in range(self.size)]

    def _contribution(self, values: Iterator[bytes], other: int) -> str:
        """The text of a process, the next one of all."""
        with self._errors_of(other):
            size, _, text = next(values).decode().partition(" ")
        if size != str(self.size):
            raise SizesDiffer(
                f"rank {self.rank} has joined as one of {self.size} ranks but rank "
                f"{other} as one of {size}; start all with the same number of ranks",
                rank=self.rank,
            )
        return text

    def broadcast(self, text: str) -> str:
        """The text of rank 0."""
        if self.rank == 0:
            self.publish(text)
        return self.published()

    def publish(self, text: str) -> None:
        """The part of rank 0 in a broadcast."""
        self._store.set(f"{self._name}first", text.encode())

    def published(self) -> str:
        """The part of the other ranks in a broadcast: wait for the text."""
        with self._errors_of(0):
            return self._store.get(f"{self._name}first", self._timeout).decode()

    @property
    def _prefix(self) -> str:
        """The prefix of the keys of an allgather."""
        return f"{self._name}said/"

    @contextmanager
    def _errors_of(self, writer: int) -> Iterator[None]:
        """Name the rank whose key is not set in time."""
        try:
            yield
        except NotSet:
            raise BootstrapError(
                f"rank {self.rank} waited {self._timeout:g} s for rank {writer}, which "
                "has not joined; start it, or pass a longer join_timeout",
                rank=self.rank,
                missing=(writer,),
            ) from None
