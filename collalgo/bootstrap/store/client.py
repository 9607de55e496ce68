"""A client of the embedded store."""

import os
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, TimeoutError as TooLate
from contextlib import suppress
from functools import partial
from threading import Lock, Thread

from collalgo.bootstrap.store.liveness import keep_alive
from collalgo.bootstrap.store.session import (
    HEAD,
    HELLO_BYTES,
    WELCOME_BYTES,
    Distrust,
    Session,
)
from collalgo.errors import BootstrapError

#: Seconds between two attempts to reach a store that is not there yet.
RETRY_SECONDS = 0.05

#: Seconds for one attempt, as there may be other addresses.
ATTEMPT_SECONDS = 2.0

#: Seconds that a request may take that waits for nobody.
ANSWER_SECONDS = 10.0

#: Seconds that the store has, at the end, to hear all that was said.
HEARING_SECONDS = 2.0

#: How an error begins that says why the store cannot be asked.
LOST = "the connection with the store is lost: "

#: Called with a key and its new value, or None once it is deleted.
Watcher = Callable[[str, bytes | None], None]


class StoreError(BootstrapError):
    """A store cannot be reached, or does not answer in time."""


class Client:
    """A connection with the embedded store: keys and values that all ranks share.

    Values are bytes, times are in seconds. What is ``leased`` is deleted when the
    process that has set it ends, or its host is gone.

    Watchers are called by a thread of the client, and must not wait for an answer.

    Parameters
    ----------
    addresses
        Where the store may be: hosts, to be tried in turn.
    port
        Its port.
    secret
        Of the job.
    timeout
        Seconds to reach it.
    lost
        Called with the reason when the connection ends, unless closed here.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        port: int,
        secret: bytes,
        timeout: float,
        lost: Callable[[str], None] = lambda _: None,
    ):
        self._lost = lost
        self._lock = Lock()
        self._answers: dict[bytes, Future[list[bytes]]] = {}
        self._watchers: list[tuple[str, Watcher]] = []
        self._asked = 0
        self._ended = ""
        self._socket, self._session = _reach(addresses, port, secret, timeout)
        # A child must not keep the connection open when this process ends.
        ours = weakref.ref(self._socket)
        os.register_at_fork(after_in_child=lambda: close_if_there(ours()))
        self._thread = Thread(target=self._listen, name="collalgo client", daemon=True)
        self._thread.start()

    # ---- the verbs

    def set(self, key: str, value: bytes, *, leased: bool = False) -> None:
        """Give a key a value."""
        self._ask(b"set", key.encode(), value, b"1" if leased else b"")

    def tell(self, key: str, value: bytes) -> None:
        """Give a key a value, and do not wait until it has it."""
        with suppress(StoreError):
            self._send(b"set", key.encode(), value, b"")

    def propose(self, key: str, value: bytes) -> None:
        """Give a key a value if it has none, and do not wait until it has."""
        with suppress(StoreError):
            self._send(b"compare_set", key.encode(), value)

    def get(self, key: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """The value of a key, as soon as it has one.

        Raises
        ------
        StoreError
            If it has none in time.
        """
        return self.ask_for(key).result(timeout)

    def look(self, key: str) -> bytes | None:
        """The value that a key has now, if any."""
        found = self._ask(b"get", key.encode(), b"")
        return found[0] if found else None

    def ask_for(self, key: str) -> "Awaited":
        """Begin to wait for the value of a key."""
        number, answer = self._send(b"get", key.encode(), b"1")
        forget = partial(self._send, b"forget", key.encode(), number)
        return Awaited(key, answer, forget)

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has, at first 0: the new one."""
        return int(self._ask(b"add", key.encode(), b"%d" % amount)[0])

    def compare_set(
        self,
        key: str,
        expected: bytes | None,
        desired: bytes,
        timeout: float = ANSWER_SECONDS,
    ) -> bytes:
        """Set a key if it has the value expected, or none: what it has then."""
        given = [] if expected is None else [expected]
        words = (b"compare_set", key.encode(), desired, *given)
        found = self._ask(*words, timeout=timeout)
        return found[0] if found else b""

    def delete(self, key: str) -> bool:
        """Delete a key: whether it was there."""
        return self._ask(b"delete", key.encode()) == [b"1"]

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin so."""
        return [key.decode() for key in self._ask(b"keys", prefix.encode())]

    def watch(self, prefix: str, watcher: Watcher) -> None:
        """Call for each key that begins so, now and whenever it changes."""
        self._watchers.append((prefix, watcher))
        self._ask(b"watch", prefix.encode())

    def close(self) -> None:
        """Let go of all that is leased, once the store has heard what was said."""
        self._ended = self._ended or "it was closed here"
        # A store that wrote to a closed socket would not read what is still unread.
        self._shut(socket.SHUT_WR)
        self._thread.join(HEARING_SECONDS)
        self._shut(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _shut(self, how: int) -> None:
        with suppress(OSError):
            self._socket.shutdown(how)

    # ---- questions and answers

    def _ask(self, *fields: bytes, timeout: float = ANSWER_SECONDS) -> list[bytes]:
        _, answer = self._send(*fields)
        try:
            return answer.result(timeout)
        except TooLate:
            raise StoreError(f"the store has not answered in {timeout:g} s") from None

    def _send(self, *fields: bytes) -> tuple[bytes, "Future[list[bytes]]"]:
        answer: Future[list[bytes]] = Future()
        with self._lock:
            if self._ended:
                raise StoreError(LOST + self._ended)
            self._asked += 1
            number = b"%d" % self._asked
            self._answers[number] = answer
            try:
                self._socket.sendall(self._session.frame([number, *fields]))
            except OSError as error:
                raise StoreError(f"{LOST}{error}") from None
        return number, answer

    def _listen(self) -> None:
        """Hand out answers and events until the connection ends."""
        why = "the other side has closed it"
        with suppress(EOFError):
            try:
                while True:
                    self._hand_out(*self._read())
            except (OSError, Distrust) as error:
                why = str(error)
        with self._lock:
            closed, self._ended = bool(self._ended), self._ended or why
            answers, self._answers = list(self._answers.values()), {}
        for answer in answers:
            if not answer.done():
                answer.set_exception(StoreError(LOST + self._ended))
        if not closed:
            self._lost(why)

    def _read(self) -> list[bytes]:
        head = exactly(self._socket, HEAD.size)
        return self._session.fields(
            head, exactly(self._socket, self._session.length(head))
        )

    def _hand_out(self, number: bytes, *fields: bytes) -> None:
        if number:
            with self._lock:
                answer = self._answers.pop(number, None)
            if answer is not None and not answer.done():
                answer.set_result([*fields])
            return
        key, *value = fields
        for prefix, watcher in list(self._watchers):
            if key.startswith(prefix.encode()):
                watcher(key.decode(), value[0] if value else None)


class Awaited:
    """The value of a key that somebody is to set."""

    def __init__(
        self, key: str, answer: "Future[list[bytes]]", forget: Callable[[], object]
    ):
        self._key, self._answer, self._forget = key, answer, forget

    def result(self, timeout: float) -> bytes:
        """Wait for it, so many seconds at most; see :meth:`Client.get`."""
        try:
            return self._answer.result(timeout)[0]
        except TooLate:
            self._forget()
            raise StoreError(f"nobody has set {self._key} in {timeout:g} s") from None

    def fail(self, error: BaseException) -> None:
        """Let who waits raise an error; only for watchers, who run one by one."""
        if not self._answer.done():
            self._answer.set_exception(error)


def close_if_there(connection: socket.socket | None) -> None:
    """Close a socket in a child that has got it from its parent."""
    if connection is not None:
        connection.close()


def exactly(connection: socket.socket, nbytes: int) -> bytes:
    """So many bytes, or EOFError if the connection ends before."""
    parts = []
    while nbytes:
        part = connection.recv(min(nbytes, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        nbytes -= len(part)
    return b"".join(parts)


def _reach(
    addresses: Sequence[str], port: int, secret: bytes, timeout: float
) -> tuple[socket.socket, Session]:
    """Connect with a store, which may not be there yet, at one of the addresses."""
    deadline = time.monotonic() + timeout
    problems: dict[str, str] = {}
    while True:
        for address in addresses:
            try:
                return _connect(address, port, secret)
            except (OSError, EOFError, Distrust) as error:
                problems[address] = str(error) or "it hung up"
        if time.monotonic() > deadline:
            raise StoreError(
                f"no store was found in {timeout:g} s at "
                + "; ".join(f"{host}:{port} ({why})" for host, why in problems.items())
            )
        time.sleep(RETRY_SECONDS)


def _connect(address: str, port: int, secret: bytes) -> tuple[socket.socket, Session]:
    connection = socket.create_connection((address, port), ATTEMPT_SECONDS)
    try:
        keep_alive(connection)
        session = Session(secret, is_store=False)
        connection.sendall(session.claim(exactly(connection, HELLO_BYTES)))
        session.check(exactly(connection, WELCOME_BYTES))
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection, session
