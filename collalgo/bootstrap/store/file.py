"""A key-value store in a folder that all processes share, without a server."""

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from collalgo.base.finalizers import Lock, serving
from collalgo.base.threads import start
from collalgo.bootstrap.folder import make_private
from collalgo.bootstrap.store.file_data import FileData
from collalgo.bootstrap.store.file_locks import refuse_local_locks
from collalgo.bootstrap.store.file_log import DamageLog, FileLog
from collalgo.bootstrap.store.file_record import Kind, Record
from collalgo.bootstrap.store.file_watch import Watch, Watches
from collalgo.bootstrap.store.heartbeats import Heartbeats
from collalgo.bootstrap.store.lease import Lease
from collalgo.bootstrap.store.pending import Expected, Posts
from collalgo.bootstrap.store.protocol import (
    ABSENT,
    ANSWER_SECONDS,
    VALUE_BYTES,
    Denied,
    Entry,
    Fence,
    LeaseExpired,
    Outcome,
    StoreError,
    Watcher,
    checked_fences,
    checked_key,
    fenced,
    refuse_large,
)

#: Seconds between two reads of the log, and of the leases of others.
POLL_SECONDS, LEASE_POLL_SECONDS = 0.02, 0.2

#: Bytes of the log above which it is rewritten without overwritten values.
COMPACTED = 64 << 20


class FileStore:
    """The keys in a folder; see :class:`~.protocol.KeyValueStore`.

    All changes go to a log in the folder, in one order: a process appends while it
    holds a lock. The file system must have locks (flock) that all hosts respect, as
    NFS 4 has. Whoever may write to the folder is trusted: it belongs to one user.

    Parameters
    ----------
    folder
        The folder, which is made if it does not exist.

    Raises
    ------
    BootstrapError
        If the folder cannot be used, or others may write to it.
    """

    value_bytes = VALUE_BYTES
    sees_ends = True

    def __init__(self, folder: Path):
        self._folder = folder
        self._writing, self._lock = Lock(), Lock()  # the first is taken first
        self._watches = Watches()
        self._leases: list[Lease] = []
        self._closed, self._damage = Event(), DamageLog()
        self._posts, self._data = Posts(), FileData()
        with self._reporting():
            make_private(folder)
            refuse_local_locks(folder)
            self._beats = Heartbeats(folder)
            self._log = FileLog(folder)
            self._refresh()
        self._thread = Thread(target=self._run, name="collalgo folder", daemon=True)
        start(self._thread)

    def set(
        self,
        key: str,
        value: bytes,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> int:
        """Set a key, and return the version of the change."""
        found = self._put(key, value, None, lease, fences).entry
        assert found is not None
        return found.version

    def post(self, key: str, value: bytes, version: int | None = None) -> None:
        """Set a key without waiting for the answer."""
        _check(key, value)
        self._posts.put(partial(self._put, key, value, version, None, ()))

    def get(self, key: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Wait for the value of a key."""
        return self.expect(key).result(timeout)

    def read(self, key: str) -> Entry | None:
        """The present value of a key, if it exists."""
        checked_key(key.encode())
        with self._changing(is_write=False):
            return self._data.entries.get(key)

    def expect(self, key: str) -> Expected:
        """Request the value of a key, so that the wait for it can be cancelled."""
        checked_key(key.encode())
        return Expected(self, key)

    def compare_set(
        self,
        key: str,
        value: bytes,
        version: int,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> Outcome:
        """Set a key if it has a version; ABSENT if it must not exist."""
        return self._put(key, value, version, lease, fences)

    def _put(
        self,
        key: str,
        value: bytes,
        version: int | None,
        lease: Lease | None,
        fences: Sequence[Fence],
    ) -> Outcome:
        """Set a key, if it has the version given."""
        _check(key, value)
        held = 0 if lease is None else lease.identifier
        with self._changing():
            data = self._data
            if held and held not in data.leases:
                raise LeaseExpired("the lease of this key has expired; begin another")
            for fence in checked_fences(fences):
                if (present := data.version_of(fence.key)) != fence.version:
                    raise fenced(key, fence, present)
            if version is not None and data.version_of(key) != version:
                return Outcome(False, data.entries.get(key))
            self._append([Record(Kind.PUT, data.version + 1, held, key, value)])
            return Outcome(True, data.entries[key])

    def delete(self, key: str, version: int | None = None) -> bool:
        """Delete a key, if it has the version given; return whether it was deleted."""
        checked_key(key.encode())
        with self._changing():
            present = self._data.version_of(key)
            if present == ABSENT or version not in (None, present):
                return False
            self._append([Record(Kind.DELETE, self._data.version + 1, key=key)])
            return True

    def entries(self, prefix: str) -> dict[str, Entry]:
        """The keys that start with a prefix, sorted, with their values."""
        with self._changing(is_write=False):
            found = self._data.entries
            return {key: found[key] for key in sorted(found) if key.startswith(prefix)}

    def watch(self, prefix: str, watcher: Watcher) -> Watch:
        """Call a watcher for all keys with a prefix, now and at each change."""
        with self._changing(is_write=False):
            return self._watches.add(prefix, watcher, self._data.entries)

    def lease(self, seconds: float) -> Lease:
        """Begin a lease, which is renewed until it is revoked or this is closed."""
        if not 0 < seconds < math.inf:
            raise ValueError(f"{seconds} s is not a lifetime; pass a number above 0")
        identifier, requested = secrets.randbits(63) or 1, monotonic()
        with self._changing():
            self._begin(identifier, seconds)
        lease = Lease(identifier, seconds, requested, self._renew, self._end)
        with self._lock:
            self._leases = [each for each in self._leases if not each.ended]
            self._leases.append(lease)
        return lease

    def _begin(self, identifier: int, seconds: float) -> None:
        value = repr(float(seconds)).encode()
        try:
            self._beats.begin(identifier)
            self._append([Record(Kind.GRANT, 0, identifier, value=value)])
        except BaseException:
            self._beats.end(identifier)
            raise

    def _renew(self, identifier: int) -> bool:
        with self._changing(is_write=False):
            if identifier not in self._data.leases:  # others have ended it
                self._beats.end(identifier)
                return False
            self._beats.beat(identifier)
            return True

    def _end(self, identifier: int) -> None:
        with self._changing():
            self._end_all([identifier])

    def _end_all(self, leases: Sequence[int]) -> None:
        """End leases, with the lock held."""
        for lease in leases:
            if lease in self._data.leases:
                self._append(self._data.end(lease))
            self._beats.end(lease)

    def close(self) -> None:
        """Carry out all posts, and end all leases and watches."""
        self._posts.close()
        for lease in self._leases:
            if not lease.ended:
                lease.revoke()
        self._closed.set()
        self._thread.join(ANSWER_SECONDS)

    @contextmanager
    def _changing(self, is_write: bool = True) -> Iterator[None]:
        """Read all changes; hold the lock for own changes if ``is_write``."""
        with self._reporting(), ExitStack() as held:
            if is_write:  # leases are renewed while this waits for other processes
                held.enter_context(self._writing)
                held.enter_context(self._log.locked())
            held.enter_context(self._lock)
            self._refresh()
            yield

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report errors of the file system as those of the store."""
        try:
            yield
        except OSError as error:
            kind = Denied if isinstance(error, PermissionError) else StoreError
            raise kind(
                f"the store in the folder {self._folder} cannot be used: {error}"
            ) from None

    def _refresh(self) -> None:
        """Apply the records that others have appended."""
        before = self._data
        is_new, records = self._log.read()
        if is_new:
            self._data = FileData(self._log.base)
        changes = [self._data.apply(record) for record in records]
        if is_new:
            self._watches.note(self._data.changes_from(before))
        else:
            self._watches.note(each for each in changes if each is not None)

    def _append(self, records: Sequence[Record]) -> None:
        """Append records, with the lock held, and take them in."""
        self._log.append(records)
        self._refresh()
        if self._log.nbytes > max(COMPACTED, self._log.uncompacted):
            live = sum(len(entry.value) for entry in self._data.entries.values())
            if 2 * live < self._log.nbytes:
                self._log.compact(self._data.version, self._data.records())

    @serving()
    def _run(self) -> None:
        """Read the log and the leases at intervals, and call the watchers."""
        looked = monotonic()
        while not self._closed.wait(POLL_SECONDS):
            with self._damage.logged(), self._changing(is_write=False):
                pass
            if monotonic() - looked > LEASE_POLL_SECONDS:
                looked = monotonic()
                with suppress(StoreError):
                    self._end_silent()
            with self._lock:
                pending = self._watches.take()
            for watch, change in pending:
                watch.tell(change)

    def _end_silent(self) -> None:
        """End the leases whose holders have ended."""
        with self._lock, self._reporting():
            silent = self._beats.ended(self._data.leases)
        if silent:
            with self._changing():
                self._end_all(silent)


def _check(key: str, value: bytes) -> None:
    """Refuse what no store takes."""
    checked_key(key.encode())
    refuse_large(value, VALUE_BYTES)
