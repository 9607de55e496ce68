"""The connection of a client with the embedded store: requests, answers, changes."""

import logging
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Thread
from weakref import WeakSet

from collalgo.base.finalizers import Lock, serving
from collalgo.base.threads import start
from collalgo.bootstrap.store.liveness import keep_alive
from collalgo.bootstrap.store.protocol import Change, StoreError, Watcher
from collalgo.bootstrap.store.session import (
    CONTINUED,
    HEAD,
    HELLO_BYTES,
    WELCOME_BYTES,
    OtherSecret,
    ProtocolError,
    Session,
)

_LOG = logging.getLogger("collalgo")

#: Seconds between two attempts to reach a store that does not listen yet.
RETRY_SECONDS = 0.05

#: Seconds for one attempt, as there may be other addresses.
ATTEMPT_SECONDS = 2.0

#: Seconds for which a secret is refused before it counts as wrong: the store of an
#: earlier job may still be ending.
OTHER_SECRET_SECONDS = 1.0

#: The start of the error that a lost connection causes.
LOST = "the connection with the store is lost: "

Answer = Future[list[bytes]]

#: The sockets of this process.
_OPEN: WeakSet[socket.socket] = WeakSet()


class Connection:
    """An authenticated connection, read by a thread of its own.

    Parameters
    ----------
    connection, session
        The socket, and the state of its authentication.
    lost
        Called with the reason when the connection ends, unless ended here.
    """

    def __init__(
        self,
        connection: socket.socket,
        session: Session,
        lost: Callable[[str], None],
    ):
        self._socket, self._session, self._lost = connection, session, lost
        _OPEN.add(connection)
        self._lock = Lock()
        self._answers: dict[bytes, Answer] = {}
        self._parts: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._watchers: dict[bytes, Watcher] = {}
        self._requests = 0
        self._ended = ""
        self._thread = Thread(target=self._listen, name="collalgo client", daemon=True)
        start(self._thread)

    def send(
        self, *fields: bytes, watcher: Watcher | None = None
    ) -> tuple[bytes, Answer]:
        """Send a request: its number, and the answer to come.

        Raises
        ------
        StoreError
            If the connection has ended.
        """
        answer: Answer = Future()
        with self._lock:
            if self._ended:
                raise StoreError(LOST + self._ended)
            self._requests += 1
            number = b"%d" % self._requests
            self._answers[number] = answer
            if watcher is not None:
                self._watchers[number] = watcher
            try:
                self._socket.sendall(self._session.frame([number, *fields]))
            except OSError as error:
                raise StoreError(f"{LOST}{error}") from None
        return number, answer

    def forget_answer(self, number: bytes) -> None:
        """Drop the answer of a request, if it is still to come."""
        with self._lock:
            self._answers.pop(number, None)

    def forget_watcher(self, number: bytes) -> None:
        """Stop calling a watcher."""
        with self._lock:
            self._watchers.pop(number, None)

    def end(self, reason: str) -> None:
        """Refuse further requests; the end is then not reported as a loss."""
        self._ended = self._ended or reason

    def shut(self, how: int) -> None:
        """Shut one or both directions of the socket down."""
        with suppress(OSError):
            self._socket.shutdown(how)

    def join(self, timeout: float) -> None:
        """Wait until the store has closed its side."""
        self._thread.join(timeout)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    @serving()
    def _listen(self) -> None:
        """Deliver answers and changes until the connection ends."""
        why = "the other side has closed it"
        with suppress(EOFError):
            try:
                while True:
                    self._deliver(*self._read())
            except (OSError, ProtocolError) as error:
                why = str(error)
            except (TypeError, ValueError):
                why = "the store has sent a malformed frame"
        with self._lock:
            ended_here, self._ended = bool(self._ended), self._ended or why
            answers, self._answers = list(self._answers.values()), {}
        for answer in answers:
            if not answer.done():
                answer.set_exception(StoreError(LOST + self._ended))
        if not ended_here:
            self._lost(why)

    def _read(self) -> list[bytes]:
        head = exactly(self._socket, HEAD.size)
        return self._session.fields(
            head, exactly(self._socket, self._session.length(head))
        )

    def _deliver(self, number: bytes, *fields: bytes) -> None:
        if not number:
            self._inform(*fields)
        elif number.startswith(CONTINUED):
            self._parts[number[len(CONTINUED) :]] += fields
        else:
            with self._lock:
                answer = self._answers.pop(number, None)
            whole = [*self._parts.pop(number, ()), *fields]
            if answer is not None:
                with suppress(InvalidStateError):  # it has failed meanwhile
                    answer.set_result(whole)

    def _inform(self, number: bytes, key: bytes, version: bytes, *value: bytes) -> None:
        """Call the watcher of a change; its error must not end the connection."""
        watcher = self._watchers.get(number)
        if watcher is not None:
            change = Change(key.decode(), value[0] if value else None, int(version))
            try:
                watcher(change)
            except Exception:
                _LOG.exception("a watcher of the key %s failed", change.key)


def _close_inherited() -> None:
    """Close the sockets in a child, which must not keep them open for this process."""
    for connection in list(_OPEN):
        connection.close()


os.register_at_fork(after_in_child=_close_inherited)


def exactly(connection: socket.socket, nbytes: int) -> bytes:
    """Read a number of bytes; EOFError if the connection ends before."""
    parts = []
    while nbytes:
        part = connection.recv(min(nbytes, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        nbytes -= len(part)
    return b"".join(parts)


def reach(
    addresses: Sequence[str],
    port: int,
    secret: bytes,
    timeout: float,
    check: Callable[[], None],
) -> tuple[socket.socket, Session]:
    """Connect to a store, which may not listen yet, at one of several addresses.

    An error that ``check`` raises between two attempts ends them.

    Raises
    ------
    StoreError
        If no address leads to the store within ``timeout`` seconds, or a store has
        another secret.
    """
    begun = refused_since = time.monotonic()
    while True:
        problems: dict[str, Exception] = {}
        for address in addresses:
            check()
            try:
                return _connect(address, port, secret)
            except (OSError, EOFError, ProtocolError) as error:
                problems[f"{address}:{port}"] = error
        now = time.monotonic()
        others = [at for at, why in problems.items() if isinstance(why, OtherSecret)]
        refused_since = refused_since if others else now
        if others and now - refused_since >= OTHER_SECRET_SECONDS:
            raise _other_secret(others)
        if now - begun > timeout:
            raise _not_found(timeout, problems)
        time.sleep(RETRY_SECONDS)


def _other_secret(others: Sequence[str]) -> StoreError:
    """The error if all that listens at some addresses has another secret."""
    return StoreError(
        f"the store at {', '.join(others)} has another secret than this process; pass "
        "the same secret= on all ranks, or set COLLALGO_SECRET to the same"
    )


def _not_found(timeout: float, problems: Mapping[str, Exception]) -> StoreError:
    """The error if no address leads to the store in time."""
    reasons = "; ".join(
        f"{at} ({str(why) or 'it has closed the connection'})"
        for at, why in problems.items()
    )
    return StoreError(f"no store was found in {timeout:g} s at {reasons}")


def _refuse_itself(connection: socket.socket) -> None:
    """Refuse a connection of a free port with itself, which TCP allows."""
    if connection.getsockname() == connection.getpeername():
        raise ConnectionRefusedError(
            "nothing listens there, and TCP connected to itself"
        )


def _connect(address: str, port: int, secret: bytes) -> tuple[socket.socket, Session]:
    connection = socket.create_connection((address, port), ATTEMPT_SECONDS)
    try:
        _refuse_itself(connection)
        keep_alive(connection)
        session = Session(secret, is_store=False)
        connection.sendall(session.claim(exactly(connection, HELLO_BYTES)))
        session.check(exactly(connection, WELCOME_BYTES))
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection, session
