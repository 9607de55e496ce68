"""Requests and answers of the HTTP gateway of etcd v3: JSON, with bytes in base 64."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from socket import SHUT_RDWR
from typing import Any

from collalgo.bootstrap.store.protocol import StoreError

#: Bytes of a line of a stream at most.
LONGEST_LINE = 64 << 20


class Stream:
    """The events that a member of etcd sends, each a JSON object on a line."""

    def __init__(self, connection: HTTPConnection, answer: HTTPResponse):
        self.member = connection.host, connection.port
        self._connection, self._answer = connection, answer
        self._socket = connection.sock
        self._socket.settimeout(None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield events until the stream ends."""
        while line := self._answer.readline(LONGEST_LINE):
            if line.strip():
                yield as_object(line)

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


def accepted(connection: HTTPConnection, path: str) -> HTTPResponse:
    """The answer to a request.

    Raises
    ------
    ConnectionAbortedError
        If this member cannot answer, as it has no leader.
    StoreError
        If etcd refuses the request.
    """
    answer = connection.getresponse()
    if answer.status == HTTPStatus.OK:
        return answer
    reason = answer.read().decode(errors="replace").strip()
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise ConnectionAbortedError(f"{answer.status} {reason:.300}")
    raise StoreError(f"etcd refuses {path}: {answer.status} {reason:.300}")


def term_of(found: dict[str, Any]) -> int:
    """The term of the leader in an answer; 0 if it has none."""
    header = found.get("header")
    term = str(header.get("raft_term", "")) if isinstance(header, dict) else ""
    return int(term) if term.isdecimal() else 0


def names_leader(status: dict[str, Any]) -> bool | None:
    """Whether a member that says this of itself has a leader; None if it is silent."""
    return None if not status else str(status.get("leader", "0")) != "0"


def as_object(line: bytes) -> dict[str, Any]:
    """The content of an answer of etcd; StoreError if it is not of etcd."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StoreError(f"the answer is not one of etcd: {line[:80]!r}")
    return found
