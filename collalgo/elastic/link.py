"""The connection of a process with the store of its job, renewed after a loss."""

import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from time import monotonic, sleep
from typing import Protocol, TypeVar

from collalgo.bootstrap.store.job_keys import COMMON, NODES, ROUND
from collalgo.bootstrap.store.lease import Lease
from collalgo.bootstrap.store.protocol import (
    ABSENT,
    Change,
    Entry,
    Fenced,
    KeyValueStore,
    StoreError,
    Subscription,
)
from collalgo.bootstrap.store.repeated import repeated
from collalgo.elastic.documents import decoded, encoded
from collalgo.elastic.events import Delete, Event, ProcessesListed, Seen, Write
from collalgo.errors import EpochLost, RendezvousError

_LOG = logging.getLogger("collalgo")

T = TypeVar("T")

#: Connects with the store; its argument is called with the reason of a loss.
Connect = Callable[[Callable[[str], None]], KeyValueStore]

#: Seconds between two polls whether others have left.
DEPARTURE_PAUSE = 0.1


class HeldStore(Protocol):
    """A store that this process may hold."""

    @property
    def is_held(self) -> bool: ...

    def end(self) -> None:
        """Close the store."""


class StoreLink:
    """The store of a job as the rounds use it.

    Parameters
    ----------
    connect
        Connects with the store.
    where
        The name of the store in errors.
    silence
        Seconds of the lease of this process.
    report
        Called with each change, and with errors that end the rendezvous; threads of
        the store call it.
    held
        The store, if this process may hold it; it ends with the link.
    """

    store: KeyValueStore
    lease: Lease

    def __init__(
        self,
        connect: Connect,
        where: str,
        silence: float,
        report: Callable[[Seen | Exception], None],
        held: HeldStore | None = None,
    ):
        self._connect, self._where = connect, where
        self._silence, self._report = silence, report
        self._held = held
        self._survey: Subscription | None = None
        self.is_lost = False

    def open(self, timeout: float) -> None:
        """Connect, and watch the keys that all members watch.

        Raises
        ------
        RendezvousError
            If the store is not reached within ``timeout`` seconds.
        """
        try:
            self._attempt(timeout, lambda: None)
        except BaseException:
            self._end_held()
            raise

    def _attempt(self, timeout: float, then: Callable[[], T]) -> T:
        """Connect, and read from the store; again if one of the two fails."""
        where = f"the store of the job at {self._where}"
        try:
            return repeated(lambda: self._connected(then), timeout, where)
        except StoreError as error:
            raise RendezvousError(str(error)) from None

    def _connected(self, then: Callable[[], T]) -> T:
        """Connect once, and read from the store."""
        with ExitStack() as failed:
            self.is_lost = False
            self.store = self._connect(self._lost)
            failed.callback(self.close)
            self.lease = self.store.lease(self._silence)
            self.store.watch(COMMON, self._changed)
            found = then()
            failed.pop_all()
            return found

    def reopen(
        self, timeout: float, known: dict[str, int], *, is_listing: bool
    ) -> list[Event]:
        """Connect again: the vanished keys, of those known with versions.

        Keys of processes are watched and listed again if ``is_listing``.

        Raises
        ------
        RendezvousError
            If the store is not reached, or was restarted and is empty.
        """
        self.close()
        return self._attempt(timeout, lambda: self._compare(known, is_listing))

    def _compare(self, known: dict[str, int], is_listing: bool) -> list[Event]:
        """The events that follow from the difference to what was known."""
        self._survey = None
        present = {**self.store.entries(COMMON), **self.store.entries(NODES)}
        if known.get(ROUND, ABSENT) > getattr(present.get(ROUND), "version", ABSENT):
            raise EpochLost(
                f"the store of the job at {self._where} was restarted and has no "
                "record of the present epoch; start the job again, from a checkpoint"
            )
        gone = known.keys() - present.keys()
        vanished = [Seen(key, known[key], None) for key in sorted(gone)]
        return [*vanished, *([self.list_processes()] if is_listing else [])]

    def renew(self) -> None:
        """Begin another lease after the last has ended."""
        self.lease = self.store.lease(self._silence)

    def write(self, write: Write) -> Seen | None:
        """Carry out a write: the value after it; None if a fence forbids it."""
        value = encoded(write.value)
        lease = self.lease if write.leased else None
        try:
            outcome = self.store.compare_set(
                write.key, value, write.version, lease=lease, fences=write.fences
            )
        except Fenced:
            return None
        return self._seen(write.key, write.version, outcome.entry)

    def delete(self, delete: Delete) -> Seen | None:
        """Carry out a deletion: that it was, or None if there is another version."""
        if self.store.delete(delete.key, delete.version):
            return Seen(delete.key, delete.version, None)
        return None

    def list_processes(self) -> ProcessesListed:
        """Watch the keys of all processes, and list them."""
        if self._survey is None:
            self._survey = self.store.watch(NODES, self._changed)
        found = [
            self._seen(key, ABSENT, entry)
            for key, entry in self.store.entries(NODES).items()
        ]
        return ProcessesListed(tuple(each for each in found if each is not None))

    def stop_listing(self) -> None:
        """Stop watching the keys of processes."""
        if self._survey is not None:
            self._survey.cancel()
            self._survey = None

    def end(self, timeout: float) -> None:
        """Close the connection; first await the others if the store is held here."""
        if self._held is not None and self._held.is_held:
            self._await_departures(timeout)
        self.close()
        self._end_held()

    def _end_held(self) -> None:
        if self._held is not None:
            self._held.end()

    def _await_departures(self, timeout: float) -> None:
        """Wait until no other process has a key, at most ``timeout`` seconds."""
        end = monotonic() + timeout
        self.lease.revoke()
        with suppress(StoreError):
            while self.store.entries(NODES) and monotonic() < end:
                sleep(DEPARTURE_PAUSE)

    def close(self) -> None:
        """End the lease and the connection."""
        with suppress(StoreError, OSError):
            self.store.close()

    def _lost(self, _why: str) -> None:
        self.is_lost = True
        self._report(StoreError(f"the store at {self._where} is lost: {_why}"))

    def _changed(self, change: Change) -> None:
        entry = None if change.value is None else Entry(change.value, change.version)
        seen = self._seen(change.key, change.version, entry)
        if seen is not None:
            self._report(seen)

    def _seen(self, key: str, version: int, entry: Entry | None) -> Seen | None:
        """The value of a key; a malformed document of one process is only logged."""
        if entry is None:
            return Seen(key, version, None)
        try:
            return Seen(key, entry.version, decoded(key, entry.value))
        except RendezvousError as error:
            if key.startswith(NODES):
                _LOG.warning("%s at %s was ignored: %s", key, self._where, error)
            else:
                self._report(error)
        except KeyError:
            _LOG.warning("the key %s at %s is unknown", key, self._where)
        return None
