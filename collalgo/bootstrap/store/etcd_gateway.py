"""Requests to etcd v3 by its HTTP gateway: JSON over connections that are kept."""

import base64
import json
import os
import select
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

from collalgo.base.finalizers import Lock
from collalgo.bootstrap.store.liveness import has_hung_up, keep_alive
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS, StoreError

T = TypeVar("T")

#: The port of etcd.
PORT = 2379

#: Where ``etcdctl`` finds certificates too: of the authority, of the client, its key.
AUTHORITY, CERTIFICATE, KEY = "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"

#: Seconds between two looks whether etcd still has its leader, while it is slow.
LEADER_SECONDS = 0.25

#: Bytes of a line of a stream at most.
LONGEST_LINE = 64 << 20


class Repeat(Enum):
    """Whether a request may be sent to another member when its answer is lost."""

    SAFELY = "carried out twice it has the same effect"
    NEVER = "carried out twice it may have another effect or answer"


class Gateway:
    """The members of an etcd cluster, of which one that answers is used.

    Parameters
    ----------
    members
        Host and port of each.
    """

    def __init__(self, members: Sequence[tuple[str, int]]):
        self._members = list(members)
        self._idle: list[HTTPConnection] = []
        self._lock = Lock()
        self._context = _context(os.environ)
        self._term = 0

    def ask(
        self, path: str, body: Mapping[str, Any], repeat: Repeat = Repeat.SAFELY
    ) -> dict[str, Any]:
        """Send a request, and return the answer.

        Raises
        ------
        StoreError
            If no member answers, or etcd refuses the request.
        """
        connection, answer = self._send(path, body, repeat, self._exchange)
        with self._lock:
            self._idle.append(connection)
        return answer

    def stream(self, path: str, body: Mapping[str, Any]) -> "Stream":
        """Send a request that is answered by a line for each event."""
        return Stream(*self._send(path, body, Repeat.SAFELY, _answered))

    def _send(
        self,
        path: str,
        body: Mapping[str, Any],
        repeat: Repeat,
        exchange: Callable[..., T],
    ) -> tuple[HTTPConnection, T]:
        """Send a request to the members in turn, until one answers."""
        problems: list[str] = []
        left = len(self._members)
        again = int(left == 1 and repeat is Repeat.SAFELY)
        while left:
            left -= 1
            connection = self._open(problems)
            if connection is None:
                continue
            try:
                return connection, exchange(connection, path, body)
            except (OSError, HTTPException) as error:
                self._fail(connection, error, problems)
                if repeat is Repeat.NEVER:
                    break
                if isinstance(error, ConnectionError):  # not if it was too slow
                    left, again = left + again, 0
            except StoreError:
                connection.close()
                raise
        raise StoreError(f"etcd does not answer at {'; '.join(problems)}")

    def _exchange(
        self, connection: HTTPConnection, path: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a request, and wait for the answer as long as etcd has its leader."""
        connection.request("POST", f"/v3/{path}", json.dumps(body))
        end, term = monotonic() + ANSWER_SECONDS, self._term
        while not _is_readable(connection, LEADER_SECONDS) and monotonic() < end:
            self._check_leader(connection, term)
        found = _object(_accepted(connection, path).read())
        self._term = max(self._term, _term_of(found))
        return found

    def _check_leader(self, connection: HTTPConnection, term: int) -> None:
        """Raise OSError if the leader is not that of a term any more.

        A member may have passed the request to the former leader; it then waits for
        some 7 s for what is lost.
        """
        other = self._connection(connection.host, connection.port, LEADER_SECONDS)
        found: dict[str, Any] = {}
        with suppress(OSError, HTTPException, StoreError), closing(other):
            other.request("POST", "/v3/maintenance/status", "{}")
            found = _object(_accepted(other, "maintenance/status").read())
        newer = _term_of(found)
        if 0 < term < newer:
            self._term = max(self._term, newer)  # that of the next attempt
            raise ConnectionAbortedError("its leader has changed meanwhile")

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _open(self, problems: list[str]) -> HTTPConnection | None:
        """A connection with the current member; None if it cannot be reached."""
        with self._lock:
            member = self._members[0]
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            if idle.sock is not None and not has_hung_up(idle.sock):
                return idle
            idle.close()
        connection = self._connection(*member)
        try:
            connection.connect()
            keep_alive(connection.sock)
        except OSError as error:
            self._fail(connection, error, problems)
            return None
        return connection

    def _connection(
        self, host: str, port: int, timeout: float = ANSWER_SECONDS
    ) -> HTTPConnection:
        if self._context is None:
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=self._context)

    def _fail(
        self, connection: HTTPConnection, error: Exception, problems: list[str]
    ) -> None:
        """Note why a member cannot be asked, and turn to the next one."""
        connection.close()
        problems.append(f"{connection.host}:{connection.port} ({error})")
        with self._lock:
            if self._members[0] == (connection.host, connection.port):
                self._members.append(self._members.pop(0))
        self.close()


def members_of(netloc: str) -> list[tuple[str, int]]:
    """Host and port of each member of etcd, separated by commas in a URL."""
    members = [urlsplit(f"//{member}") for member in netloc.split(",")]
    return [(member.hostname or "", member.port or PORT) for member in members]


class Stream:
    """The events that etcd sends, each a JSON object on a line."""

    def __init__(self, connection: HTTPConnection, answer: HTTPResponse):
        self._connection, self._answer = connection, answer
        self._socket = connection.sock
        self._socket.settimeout(None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield events until the stream ends."""
        while line := self._answer.readline(LONGEST_LINE):
            if line.strip():
                yield _object(line)

    def close(self) -> None:
        """End the stream; a thread that reads it sees its end."""
        with suppress(OSError):
            self._socket.shutdown(SHUT_RDWR)

    def release(self) -> None:
        """Close the connection, once no thread reads it any more."""
        self._answer.close()
        self._connection.close()


def text(content: bytes) -> str:
    """Bytes as the gateway takes them: in base 64."""
    return base64.b64encode(content).decode()


def content(found: str | None) -> bytes:
    """Bytes as the gateway gives them; it leaves empty ones out."""
    return base64.b64decode(found or "")


def after_all(prefix: bytes) -> bytes:
    """The first key after all those with a prefix, which is UTF-8 and not empty."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _context(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    """What HTTPS needs, if there are certificates."""
    if not {AUTHORITY, CERTIFICATE, KEY} & set(environment):
        return None
    context = ssl.create_default_context(cafile=environment.get(AUTHORITY))
    if CERTIFICATE in environment:
        context.load_cert_chain(environment[CERTIFICATE], environment.get(KEY))
    return context


def _answered(
    connection: HTTPConnection, path: str, body: Mapping[str, Any]
) -> HTTPResponse:
    connection.request("POST", f"/v3/{path}", json.dumps(body))
    return _accepted(connection, path)


def _accepted(connection: HTTPConnection, path: str) -> HTTPResponse:
    """The answer to a request; StoreError if etcd refuses it."""
    answer = connection.getresponse()
    if answer.status != 200:
        reason = answer.read().decode(errors="replace").strip()
        raise StoreError(f"etcd refuses {path}: {answer.status} {reason:.300}")
    return answer


def _is_readable(connection: HTTPConnection, seconds: float) -> bool:
    """Whether an answer, or the end of the connection, comes in some seconds."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))


def _term_of(found: dict[str, Any]) -> int:
    """The term of the leader in an answer; 0 if it has none."""
    header = found.get("header")
    term = str(header.get("raft_term", "")) if isinstance(header, dict) else ""
    return int(term) if term.isdecimal() else 0


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StoreError(f"the answer is not one of etcd: {line[:80]!r}")
    return found
