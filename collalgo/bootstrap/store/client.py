"""A client of the embedded store."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, TimeoutError as TooLate
from contextlib import suppress
from functools import partial
from socket import SHUT_RDWR, SHUT_WR
from time import monotonic

from collalgo.bootstrap.store.connection import Connection, reach
from collalgo.bootstrap.store.lease import Lease
from collalgo.bootstrap.store.protocol import (
    ANSWER_SECONDS,
    Entry,
    Fence,
    LeaseExpired,
    NotSet,
    Outcome,
    StoreError,
    Watcher,
    by_prefix,
    checked_fences,
    checked_key,
    fenced,
    refuse_large,
)
from collalgo.bootstrap.store.session import (
    EXPIRED,
    FENCED,
    LONGEST_LEASE,
    MOST_BYTES,
    OK,
)

#: Seconds that the store has, at the end, to read all requests.
DRAIN_SECONDS = 2.0


class Client:
    """A connection to the embedded store; see :class:`~.protocol.KeyValueStore`.

    Its leases end with it, at once: when the process closes it or ends, and when its
    host cannot be reached any more.

    Parameters
    ----------
    addresses
        The hosts at which the store may be, tried one after the other.
    port
        Its port.
    secret
        The secret of the job.
    timeout
        Seconds to reach it.
    lost
        Called with the reason when the connection ends, unless closed here.
    check
        Called between attempts to reach it; an error that it raises ends them.
    """

    value_bytes = MOST_BYTES
    sees_ends = True

    def __init__(
        self,
        addresses: Sequence[str],
        port: int,
        secret: bytes,
        timeout: float,
        lost: Callable[[str], None] = lambda _: None,
        check: Callable[[], None] = lambda: None,
    ):
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        socket, session = reach(addresses, port, secret, timeout, check)
        self._connection = Connection(socket, session, lost)

    def set(
        self,
        key: str,
        value: bytes,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> int:
        """Set a key, and return the version of the change."""
        terms = (_name(lease), *_fields(fences))
        answer = self._ask(b"set", *self._checked(key, value), *terms)
        return int(_unless_refused(key, answer)[1])

    def post(self, key: str, value: bytes, version: int | None = None) -> None:
        """Set a key without waiting for the answer."""
        entry = self._checked(key, value)
        with suppress(StoreError):
            if version is None:
                self._connection.send(b"set", *entry, b"")
            else:
                self._connection.send(b"compare_set", *entry, b"%d" % version, b"")

    def get(self, key: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Wait for the value of a key."""
        return self.expect(key).result(timeout)

    def read(self, key: str) -> Entry | None:
        """The present value of a key, if it exists."""
        return _entry(self._ask(b"get", checked_key(key.encode())))

    def expect(self, key: str) -> "Expected":
        """Request the value of a key, so that the wait for it can be cancelled."""
        text = checked_key(key.encode())
        number, answer = self._connection.send(b"wait", text)
        return Expected(key, answer, partial(self._forget, text, number))

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
        entry = self._checked(key, value)
        terms = (b"%d" % version, _name(lease), *_fields(fences))
        answer = self._ask(b"compare_set", *entry, *terms)
        status, *found = _unless_refused(key, answer)
        return Outcome(status == OK, _entry(found))

    def delete(self, key: str, version: int | None = None) -> bool:
        """Delete a key, if it has the version given; return whether it was deleted."""
        expected = b"" if version is None else b"%d" % version
        return self._ask(b"delete", checked_key(key.encode()), expected)[0] == OK

    def entries(self, prefix: str) -> dict[str, Entry]:
        """The keys that start with a prefix, sorted, with their values."""
        fields = self._ask(b"entries", prefix.encode())
        return {
            fields[i].decode(): Entry(fields[i + 2], int(fields[i + 1]))
            for i in range(0, len(fields), 3)
        }

    def watch(self, prefix: str, watcher: Watcher) -> "Watch":
        """Call a watcher for all keys with a prefix, now and at each change."""
        return self.watch_each({prefix: watcher})

    def watch_each(self, watchers: Mapping[str, Watcher]) -> "Watch":
        """Call watchers for the keys with their prefixes, by one request for all."""
        prefixes = [prefix.encode() for prefix in watchers]
        number, answer = self._connection.send(
            b"watch", *prefixes, watcher=by_prefix(watchers)
        )
        _answer(answer)
        return Watch(self._connection, number)

    def lease(self, seconds: float) -> Lease:
        """Begin a lease, which is renewed until it is revoked or this is closed."""
        if not 0 < seconds <= LONGEST_LEASE:
            raise ValueError(f"{seconds} s is not a lifetime; pass a number above 0")
        requested = monotonic()
        (name,) = self._ask(b"lease", repr(float(seconds)).encode())
        lease = Lease(int(name), seconds, requested, self._renew, self._end)
        self._leases.add(lease)
        return lease

    def close(self) -> None:
        """Wait until the store has read all requests, and end all leases."""
        for lease in list(self._leases):
            lease.stop()
        self._connection.end("it was closed here")
        # If the socket were closed, an answer of the store would reset the connection
        # and discard what the store has not read yet.
        self._connection.shut(SHUT_WR)
        self._connection.join(DRAIN_SECONDS)
        self._connection.shut(SHUT_RDWR)
        self._connection.join(5)
        self._connection.close()

    def _forget(self, key: bytes, number: bytes) -> None:
        """Withdraw a wait for a key, which is not answered then."""
        self._connection.forget_answer(number)
        self._connection.send(b"forget", key, number)

    def _renew(self, identifier: int) -> bool:
        return self._ask(b"renew", b"%d" % identifier)[0] == OK

    def _end(self, identifier: int) -> None:
        self._ask(b"revoke", b"%d" % identifier)

    @staticmethod
    def _checked(key: str, value: bytes) -> tuple[bytes, bytes]:
        refuse_large(value, MOST_BYTES)
        return checked_key(key.encode()), value

    def _ask(self, *fields: bytes) -> list[bytes]:
        return _answer(self._connection.send(*fields)[1])


class Expected:
    """The value of a key that another process is to set."""

    def __init__(
        self, key: str, answer: "Future[list[bytes]]", forget: Callable[[], object]
    ):
        self._key, self._answer, self._forget = key, answer, forget

    def result(self, timeout: float) -> bytes:
        """Wait for the value; NotSet if the key is not set in time."""
        try:
            return self._answer.result(timeout)[0]
        except TooLate:
            self._forget()
            raise NotSet(self._key, timeout) from None

    def fail(self, error: BaseException) -> None:
        """Make ``result`` raise an error; watchers, which run one by one, call this."""
        with suppress(InvalidStateError):  # it has its answer
            self._answer.set_exception(error)


class Watch:
    """A watcher that is registered with the embedded store."""

    def __init__(self, connection: Connection, number: bytes):
        self._connection, self._number = connection, number

    def cancel(self) -> None:
        """Stop the calls of the watcher."""
        self._connection.forget_watcher(self._number)
        with suppress(StoreError):
            self._connection.send(b"unwatch", self._number)


def _name(lease: Lease | None) -> bytes:
    return b"" if lease is None else b"%d" % lease.identifier


def _entry(fields: Sequence[bytes]) -> Entry | None:
    return Entry(fields[1], int(fields[0])) if fields else None


def _fields(fences: Sequence[Fence]) -> list[bytes]:
    """The keys and versions of fences, alternately."""
    pairs = [
        (fence.key.encode(), b"%d" % fence.version) for fence in checked_fences(fences)
    ]
    return [field for pair in pairs for field in pair]


def _unless_refused(key: str, answer: list[bytes]) -> list[bytes]:
    """The answer to a change; LeaseExpired or Fenced if it is the refusal of it."""
    if answer[0] == EXPIRED:
        raise LeaseExpired("the lease of this key has expired; begin another")
    if answer[0] == FENCED:
        other, needed, present = answer[1:]
        raise fenced(key, Fence(other.decode(), int(needed)), int(present))
    return answer


def _answer(pending: "Future[list[bytes]]") -> list[bytes]:
    try:
        return pending.result(ANSWER_SECONDS)
    except TooLate:
        raise StoreError(
            f"the store has not answered within {ANSWER_SECONDS:g} s"
        ) from None
