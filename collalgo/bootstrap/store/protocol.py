"""The protocol of key-value stores, and the rules that every implementation keeps.

- A key is text of 1 to :data:`KEY_BYTES` bytes of UTF-8; a value is bytes, of at least
  :data:`VALUE_BYTES` in every store. Others raise ValueError.
- Each change of any key has a version of its own, greater than all before. A version is
  never used again, also not after a key was deleted and set again, so ``compare_set``
  has no ABA problem. Version 0 means that the key does not exist.
- Durations are measured by the monotonic clock of one process; clocks of two machines
  are never compared.
- A request that fails with :class:`StoreError` may have been carried out or not. A
  caller that has to know puts something unique into the value and reads the key.
- A change may depend on other keys: it is refused as :class:`Fenced`, and nothing is
  changed, unless each of them has the version of its :class:`Fence`. The store checks
  them and makes the change in one step.

``tests/bootstrap/test_key_value_store.py`` holds every implementation to this.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from collalgo.bootstrap.store.lease import Lease
from collalgo.errors import BootstrapError

#: Seconds that a store has to answer a request which does not wait for a key.
ANSWER_SECONDS = 10.0

#: Bytes of a key at most.
KEY_BYTES = 1 << 14

#: Bytes that a value may have in every store.
VALUE_BYTES = 1 << 20

#: The version of a key that does not exist.
ABSENT = 0

#: Fences of a change at most; etcd takes 128 conditions, of which one is of the key.
MOST_FENCES = 100


class StoreError(BootstrapError):
    """A store cannot be reached, or does not answer in time."""


class NotSet(StoreError):
    """A key was not set in time."""

    def __init__(self, key: str, timeout: float):
        super().__init__(f"key {key} was not set within {timeout:g} s")


class Denied(StoreError):
    """The system does not let this user use the store."""


class LeaseExpired(StoreError):
    """The lease of a request has expired, or was revoked."""


class Fenced(StoreError):
    """A key on which a change depends has another version; nothing was changed."""


class Entry(NamedTuple):
    """The value of a key, and the version of the change that has set it."""

    value: bytes
    version: int


class Outcome(NamedTuple):
    """Whether ``compare_set`` has set a key, and the present value of the key."""

    succeeded: bool
    entry: Entry | None


class Fence(NamedTuple):
    """A key on which a change depends, and the version that it must have."""

    key: str
    version: int


class Change(NamedTuple):
    """A key that was set, or deleted if ``value`` is None."""

    key: str
    value: bytes | None
    version: int


Watcher = Callable[[Change], None]


def by_prefix(watchers: Mapping[str, Watcher]) -> Watcher:
    """A watcher that passes each change on to those of the prefixes of its key."""

    def watcher(change: Change) -> None:
        for prefix, each in watchers.items():
            if change.key.startswith(prefix):
                each(change)

    return watcher


class ExchangeStore(Protocol):
    """The interface of a store for an exchange among ranks: each key is set once."""

    def set(self, key: str, value: bytes) -> object:
        """Set a key that does not exist yet."""

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""


@runtime_checkable
class ListedStore(ExchangeStore, Protocol):
    """A store for an exchange that gives the values of several keys at once."""

    def present(self, prefix: str) -> dict[str, bytes]:
        """The values of the keys with a prefix that exist now."""


class PendingValue(Protocol):
    """A request for the value of a key that may not exist yet."""

    def result(self, timeout: float) -> bytes:
        """Wait for the value; StoreError if the key is not set in time."""

    def fail(self, error: BaseException) -> None:
        """Make a pending ``result`` raise an error; another thread may call this."""


class Subscription(Protocol):
    """A watcher that is registered with a store."""

    def cancel(self) -> None:
        """Stop the calls of the watcher; one that runs may still finish."""


class KeyValueStore(ExchangeStore, Protocol):
    """Keys and values that several processes share.

    Attributes
    ----------
    value_bytes : int
        Bytes of a value at most, :data:`VALUE_BYTES` or more.
    sees_ends : bool
        Whether it sees the end of a process at once, not only that of its lease.
    """

    @property
    def value_bytes(self) -> int: ...

    @property
    def sees_ends(self) -> bool: ...

    def set(
        self,
        key: str,
        value: bytes,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> int:
        """Set a key, and return the version of the change.

        With a lease the key is deleted when the lease ends; set again without one, it
        stays.

        Raises
        ------
        LeaseExpired
            If the lease has ended already; the key is not set.
        Fenced
            If a key of the fences has another version; the key is not set.
        """

    def post(self, key: str, value: bytes, version: int | None = None) -> None:
        """Set a key without waiting for the answer; errors are dropped.

        With a version it acts as ``compare_set``. Posts are carried out in their order,
        and ``close`` gives the pending ones some time. Watchers may call this.
        """

    def get(self, key: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Wait for the value of a key.

        Raises
        ------
        StoreError
            If the key is not set within ``timeout`` seconds.
        """

    def read(self, key: str) -> Entry | None:
        """The present value of a key, if it exists."""

    def expect(self, key: str) -> PendingValue:
        """Request the value of a key, so that the wait for it can be cancelled."""

    def compare_set(
        self,
        key: str,
        value: bytes,
        version: int,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> Outcome:
        """Set a key if it has a version; :data:`ABSENT` if it must not exist.

        Raises
        ------
        LeaseExpired
            If the lease has ended already; the key is not set.
        Fenced
            If a key of the fences has another version; the key is not set.
        """

    def delete(self, key: str, version: int | None = None) -> bool:
        """Delete a key, if it has the version given; return whether it was deleted."""

    def entries(self, prefix: str) -> dict[str, Entry]:
        """The keys that start with a prefix, sorted, with their values."""

    def watch(self, prefix: str, watcher: Watcher) -> Subscription:
        """Call a watcher for all keys with a prefix, now and at each change.

        It is called for each key that exists, then for each change in the order of
        versions. After an interruption intermediate values may be missing, never the
        last one. A thread of the store calls it; it must neither wait nor raise.
        """

    def lease(self, seconds: float) -> Lease:
        """Begin a lease, which the store object renews until it is revoked or closed.

        The keys of a lease are deleted once it was not renewed for its time to live,
        and earlier if the store sees that the process which holds it has ended.
        The store may round the time to live up; see ``Lease.seconds``.
        """

    def close(self) -> None:
        """Carry out all posts, and end all leases of this object."""


def checked_key(key: bytes) -> bytes:
    """A key; ValueError unless it is UTF-8 of a length that all stores take."""
    if not 0 < len(key) <= KEY_BYTES:
        raise ValueError(
            f"a key has {len(key)} bytes ({key[:20]!r}); need 1 to {KEY_BYTES}"
        )
    key.decode()
    return key


def refuse_large(value: bytes, largest: int) -> None:
    """Raise ValueError for a value that a store does not take."""
    if len(value) > largest:
        raise ValueError(f"{len(value)} bytes are more than {largest}")


def checked_fences(fences: Sequence[Fence]) -> Sequence[Fence]:
    """The fences of a change; ValueError if they are too many for every store."""
    if len(fences) > MOST_FENCES:
        raise ValueError(f"{len(fences)} fences are more than {MOST_FENCES}")
    for fence in fences:
        checked_key(fence.key.encode())
    return fences


def fenced(key: str, fence: Fence, version: int) -> Fenced:
    """The error of a change that a fence forbids, as its key has another version."""
    return Fenced(
        f"key {key} was not changed: key {fence.key} has version {version}, and the "
        f"change needs {fence.version}; its caller has lost the right to make it"
    )


def present(store: KeyValueStore, prefix: str) -> dict[str, bytes]:
    """The values of the keys that start with a prefix."""
    return {key: entry.value for key, entry in store.entries(prefix).items()}


def add(store: KeyValueStore, key: str, amount: int) -> int:
    """Add to the number that a key holds, at first 0, and return the sum."""
    while True:
        entry = store.read(key)
        total = int(entry.value if entry else 0) + amount
        version = entry.version if entry else ABSENT
        if store.compare_set(key, b"%d" % total, version).succeeded:
            return total
