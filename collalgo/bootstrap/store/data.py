"""The keys of the embedded store, and the commands of clients on them.

No socket, no thread: the server calls it from its event loop.
"""

from asyncio import TimerHandle
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

from collalgo.bootstrap.store.protocol import (
    ABSENT,
    Entry,
    checked_key,
    refuse_large,
)
from collalgo.bootstrap.store.session import (
    CONFLICT,
    CONTINUED,
    EXPIRED,
    FENCED,
    LONGEST_LEASE,
    MOST_BYTES,
    OK,
)

#: Bytes of values in one frame of a list, roughly.
PAGE_BYTES = 1 << 20

#: Seconds that a timer of the store may be late before the store was itself paused.
PAUSE_SECONDS = 0.5

#: A pending ``wait``, or a watch: its client and the number of the request.
_Request = tuple["Client", bytes]


class Client(Protocol):
    """A client that answers and changes are sent to."""

    def send(self, *fields: bytes) -> None: ...


class Clock(Protocol):
    """The monotonic clock and the timers of an event loop."""

    def time(self) -> float: ...

    def call_at(
        self, when: float, callback: Callable[..., None], *arguments: object
    ) -> TimerHandle: ...


class _Lease:
    """A lease, its keys, and the timer that ends it."""

    def __init__(self, holder: Client, seconds: float):
        self.holder, self.seconds = holder, seconds
        self.keys: set[bytes] = set()
        self.due = 0.0
        self.timer: TimerHandle | None = None


class Data:
    """The entries, leases, watches and pending requests of a store."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._version = self._granted = 0
        self._entries: dict[bytes, Entry] = {}
        self._leases: dict[bytes, _Lease] = {}
        self._lease_of: dict[bytes, _Lease] = {}
        self._waiting: dict[bytes, list[_Request]] = defaultdict(list)
        self._watches: dict[_Request, tuple[bytes, ...]] = {}
        self._commands = self._all_commands()

    def _all_commands(self) -> dict[bytes, Callable[..., Iterable[bytes] | None]]:
        return {
            b"set": self._set,
            b"compare_set": self._compare_set,
            b"get": self._get,
            b"wait": self._wait,
            b"forget": self._forget,
            b"delete": self._delete,
            b"entries": self._list,
            b"watch": self._watch,
            b"unwatch": self._unwatch,
            b"lease": self._grant,
            b"renew": self._renew,
            b"revoke": self._revoke,
        }

    def execute(self, client: Client, fields: list[bytes]) -> None:
        """Carry out a command and answer it.

        Raises
        ------
        LookupError, TypeError, ValueError
            If there is no such command, or its arguments are malformed.
        """
        number, name, *arguments = fields
        answer = self._commands[name](client, number, *arguments)
        if answer is not None:
            client.send(number, *answer)

    def drop(self, client: Client) -> None:
        """End the leases and the pending requests of a client that has left."""
        self.unsubscribe(client)
        for name, lease in list(self._leases.items()):
            if lease.holder is client:
                self._end(name)

    def unsubscribe(self, client: Client) -> None:
        """Drop the watches and the pending requests of a client."""
        for request in [each for each in self._watches if each[0] is client]:
            del self._watches[request]
        for key in list(self._waiting):
            self._withdraw(key, lambda request: request[0] is client)

    # ---- changes

    def _put(self, key: bytes, value: bytes | None, lease: _Lease | None) -> int:
        """Change a key; inform the clients that watch it or wait for it."""
        checked_key(key)
        refuse_large(value or b"", MOST_BYTES)
        self._version += 1
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = Entry(value, self._version)
        if (before := self._lease_of.pop(key, None)) is not None:
            before.keys.discard(key)
        if lease is not None:
            self._lease_of[key] = lease
            lease.keys.add(key)
        change = (key, b"%d" % self._version, *([] if value is None else [value]))
        for (client, number), prefixes in list(self._watches.items()):
            if key.startswith(prefixes):
                client.send(b"", number, *change)
        if value is not None:
            for client, number in self._waiting.pop(key, ()):
                client.send(number, value)
        return self._version

    def _set(
        self,
        client: Client,
        _number: bytes,
        key: bytes,
        value: bytes,
        lease: bytes,
        *fences: bytes,
    ) -> Iterable[bytes]:
        if refusal := self._refusal(client, lease, fences):
            return refusal
        version = self._put(key, value, self._held(client, lease))
        return [OK, b"%d" % version]

    def _compare_set(
        self,
        client: Client,
        _number: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        lease: bytes,
        *fences: bytes,
    ) -> Iterable[bytes]:
        if refusal := self._refusal(client, lease, fences):
            return refusal
        if int(version) != self._version_of(key):
            return [CONFLICT, *self._fields(key)]
        self._put(key, value, self._held(client, lease))
        return [OK, *self._fields(key)]

    def _refusal(
        self, client: Client, lease: bytes, fences: tuple[bytes, ...]
    ) -> list[bytes]:
        """The reason to refuse a change: an ended lease, or a broken fence."""
        if lease and self._held(client, lease) is None:
            return [EXPIRED]
        for key, version in zip(fences[::2], fences[1::2], strict=True):
            present = self._version_of(checked_key(key))
            if present != int(version):
                return [FENCED, key, version, b"%d" % present]
        return []

    def _delete(
        self, _client: Client, _number: bytes, key: bytes, version: bytes
    ) -> Iterable[bytes]:
        present = self._version_of(key)
        if present == ABSENT or (version and int(version) != present):
            return [CONFLICT]
        self._put(key, None, None)
        return [OK]

    # ---- look-ups

    def _version_of(self, key: bytes) -> int:
        return self._entries[key].version if key in self._entries else ABSENT

    def _fields(self, key: bytes) -> list[bytes]:
        """The version and the value of a key, or nothing."""
        entry = self._entries.get(key)
        return [b"%d" % entry.version, entry.value] if entry else []

    def _get(self, _client: Client, _number: bytes, key: bytes) -> Iterable[bytes]:
        return self._fields(key)

    def _wait(
        self, client: Client, number: bytes, key: bytes
    ) -> Iterable[bytes] | None:
        if key in self._entries:
            return [self._entries[key].value]
        self._waiting[checked_key(key)].append((client, number))
        return None

    def _forget(
        self, client: Client, _number: bytes, key: bytes, request: bytes
    ) -> Iterable[bytes]:
        """Withdraw a ``wait`` that its client has cancelled."""
        self._withdraw(key, lambda each: each == (client, request))
        return []

    def _withdraw(self, key: bytes, matches: Callable[[_Request], bool]) -> None:
        left = [each for each in self._waiting.pop(key, []) if not matches(each)]
        if left:
            self._waiting[key] = left

    def _list(self, client: Client, number: bytes, prefix: bytes) -> Iterable[bytes]:
        """All keys with a prefix, in several frames if they need them."""
        page, left = list[bytes](), PAGE_BYTES
        for key in sorted(key for key in self._entries if key.startswith(prefix)):
            nbytes = len(key) + len(self._entries[key].value)
            if page and nbytes > left:
                client.send(CONTINUED + number, *page)
                page, left = [], PAGE_BYTES
            page += [key, *self._fields(key)]
            left -= nbytes
        return page

    def _watch(self, client: Client, number: bytes, *prefixes: bytes) -> None:
        """Send all keys with one of some prefixes, then each change of one."""
        self._watches[client, number] = prefixes
        client.send(number)
        for key in [key for key in self._entries if key.startswith(prefixes)]:
            client.send(b"", number, key, *self._fields(key))

    def _unwatch(
        self, client: Client, _number: bytes, request: bytes
    ) -> Iterable[bytes]:
        self._watches.pop((client, request), None)
        return []

    # ---- leases

    def _held(self, client: Client, name: bytes) -> _Lease | None:
        """A lease that a client holds; no other client can use it."""
        lease = self._leases.get(name)
        return lease if lease is not None and lease.holder is client else None

    def _grant(self, client: Client, _number: bytes, seconds: bytes) -> Iterable[bytes]:
        if not 0 < float(seconds) <= LONGEST_LEASE:
            raise ValueError(f"{seconds!r} s is not a lifetime; pass a number above 0")
        self._granted += 1
        name = b"%d" % self._granted
        self._leases[name] = _Lease(client, float(seconds))
        self._extend(name)
        return [name]

    def _extend(self, name: bytes) -> None:
        lease = self._leases[name]
        if lease.timer is not None:
            lease.timer.cancel()
        lease.due = self._clock.time() + lease.seconds
        lease.timer = self._clock.call_at(lease.due, self._expire, name)

    def _expire(self, name: bytes) -> None:
        # A store that was paused has not read the renewals of that time.
        if self._clock.time() - self._leases[name].due > PAUSE_SECONDS:
            self._extend(name)
        else:
            self._end(name)

    def _renew(self, client: Client, _number: bytes, name: bytes) -> Iterable[bytes]:
        if self._held(client, name) is None:
            return [EXPIRED]
        self._extend(name)
        return [OK]

    def _revoke(self, client: Client, _number: bytes, name: bytes) -> Iterable[bytes]:
        if self._held(client, name) is not None:
            self._end(name)
        return []

    def _end(self, name: bytes) -> None:
        lease = self._leases.pop(name)
        if lease.timer is not None:
            lease.timer.cancel()
        for key in sorted(lease.keys):
            self._put(key, None, None)
