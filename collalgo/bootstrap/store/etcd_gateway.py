"""Requests to etcd v3 by its HTTP gateway: JSON over connections that are kept."""

import json
import select
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from collalgo.base.finalizers import Lock
from collalgo.bootstrap.store.certificates import context_of_environment
from collalgo.bootstrap.store.etcd_messages import (
    Stream,
    accepted,
    as_object,
    names_leader,
    term_of,
)
from collalgo.bootstrap.store.liveness import is_closed_by_peer, is_silent, keep_alive
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS, StoreError
from collalgo.bootstrap.store.race import Race, Server

T = TypeVar("T")

#: The port of etcd.
PORT = 2379

#: Seconds to connect with a member.
CONNECT_SECONDS = 2.0

#: Seconds between two checks of a member that is slow.
POLL_SECONDS = 0.25

#: The number of successive checks of a member whose host does not answer, or that has
#: no leader, after which another is tried.
SILENT_POLLS, LEADERLESS_POLLS = 2, 4

#: The header of a stream that is to end where there is no leader, as behind a cut.
REQUIRE_LEADER = {"Grpc-Metadata-hasleader": "true"}


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
    context
        For HTTPS; by default by the certificates that the environment names, if any.
    """

    def __init__(
        self, members: Sequence[Server], context: ssl.SSLContext | None = None
    ):
        self._members = list(members)
        self._idle: list[HTTPConnection] = []
        self._streams: WeakSet[Stream] = WeakSet()
        self._lock = Lock()
        self._context = context or context_of_environment()
        if self._context is not None:
            # In 1.3 tickets follow the handshake, which would pass for an answer.
            self._context.maximum_version = ssl.TLSVersion.TLSv1_2
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
        stream = Stream(*self._send(path, body, Repeat.SAFELY, self._begin))
        with self._lock:
            self._streams.add(stream)
        return stream

    def _send(
        self,
        path: str,
        body: Mapping[str, Any],
        repeat: Repeat,
        exchange: Callable[..., T],
    ) -> tuple[HTTPConnection, T]:
        """Send a request to one member after the other, until one answers."""
        problems: dict[Server, str] = {}
        left = len(self._members)
        again = int(left == 1 and repeat is Repeat.SAFELY)
        while left and (connection := self._open(problems)) is not None:
            left -= 1
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
        raise _no_answer(problems)

    def _exchange(
        self, connection: HTTPConnection, path: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a request: the answer."""
        found = as_object(self._answer(connection, path, body, {}).read())
        self._term = max(self._term, term_of(found))
        return found

    def _begin(
        self, connection: HTTPConnection, path: str, body: Mapping[str, Any]
    ) -> HTTPResponse:
        """Send a request that a stream answers."""
        return self._answer(connection, path, body, REQUIRE_LEADER)

    def _answer(
        self,
        connection: HTTPConnection,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> HTTPResponse:
        """Send a request, and wait for the answer as long as etcd has its leader."""
        self._secure(connection)
        connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
        self._await(connection)
        return accepted(connection, path)

    def _await(self, connection: HTTPConnection) -> None:
        """Wait for an answer; OSError if its member certainly has none."""
        end, term = monotonic() + ANSWER_SECONDS, self._term
        others = len(self._members) > 1
        silent = looks = leaderless = 0
        while not _is_readable(connection, POLL_SECONDS):
            if monotonic() > end:
                raise TimeoutError(f"it has not answered within {ANSWER_SECONDS:g} s")
            silent = silent + 1 if is_silent(connection.sock) else 0
            if others and silent >= SILENT_POLLS:
                raise ConnectionAbortedError("its host does not answer")
            member = connection.host, connection.port
            has_leader = bool(silent) or self._has_leader(member, term)
            if others and leaderless and has_leader:  # what was asked then may be lost
                raise ConnectionAbortedError("it has had no leader meanwhile")
            if others and not has_leader:
                looks, leaderless = looks + 1, leaderless + (has_leader is False)
                self._leave_leaderless(member, looks, silent=has_leader is None)

    def _has_leader(self, member: Server, term: int) -> bool | None:
        """Whether a member has a leader; None if silent, OSError if it has a new one.

        A member may have passed the request to the former leader; it then waits for
        some 7 s for what is lost.
        """
        found = self._status(member)
        newer = term_of(found)
        if 0 < term < newer:
            self._term = max(self._term, newer)  # that of the next attempt
            raise ConnectionAbortedError("its leader has changed meanwhile")
        return names_leader(found)

    def _leave_leaderless(self, member: Server, looks: int, *, silent: bool) -> None:
        """Raise OSError if a member without a leader in several polls must be dropped.

        If it is not silent, another that has one is the next to be used.
        """
        others = [each for each in list(self._members) if each != member]
        other = others[looks % len(others)]
        if not silent and names_leader(self._status(other)):
            self._turn_to(other)
            raise ConnectionAbortedError(f"it has no leader, but {other[0]} has one")
        if looks >= LEADERLESS_POLLS:
            raise ConnectionAbortedError("it has no leader, or hangs")

    def _status(self, member: Server) -> dict[str, Any]:
        """The status of a member; empty if it reports nothing at once."""
        connection = self._connection(*member, POLL_SECONDS)
        with suppress(OSError, HTTPException, StoreError), closing(connection):
            connection.request("POST", "/v3/maintenance/status", "{}")
            return as_object(accepted(connection, "maintenance/status").read())
        return {}

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _open(self, problems: dict[Server, str]) -> HTTPConnection | None:
        """A connection with a member that can be reached, if possible the current."""
        with self._lock:
            members = list(self._members)
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            if idle.sock is not None and not is_closed_by_peer(idle.sock):
                return idle
            idle.close()
        race = Race(members)
        reached = race.run(CONNECT_SECONDS)
        problems.update(race.problems)
        return None if reached is None else self._reached(*reached)

    def _reached(self, member: Server, connected: socket) -> HTTPConnection:
        """A connection with a member, which is the current one from now on."""
        self._turn_to(member)
        connection = self._connection(*member)
        connected.settimeout(ANSWER_SECONDS)
        keep_alive(connected)
        connection.sock = connected
        return connection

    def _turn_to(self, member: Server) -> None:
        """Make a member the current one."""
        with self._lock:
            place = self._members.index(member)
            self._members = self._members[place:] + self._members[:place]

    def _secure(self, connection: HTTPConnection) -> None:
        """Begin TLS on a new connection, if there are certificates."""
        is_secure = isinstance(connection.sock, ssl.SSLSocket)
        if self._context is not None and not is_secure:
            connection.sock = self._context.wrap_socket(
                connection.sock, server_hostname=connection.host
            )

    def _connection(
        self, host: str, port: int, timeout: float = ANSWER_SECONDS
    ) -> HTTPConnection:
        if self._context is None:
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=self._context)

    def _fail(
        self, connection: HTTPConnection, error: Exception, problems: dict[Server, str]
    ) -> None:
        """Record the failure of a member, and switch to the next one."""
        connection.close()
        member = connection.host, connection.port
        problems[member] = str(error)
        with self._lock:
            if self._members[0] == member:
                self._members.append(self._members.pop(0))
            streams = [each for each in self._streams if each.member == member]
        self.close()
        for stream in streams:  # they begin again at another member
            stream.close()


def _no_answer(problems: Mapping[Server, str]) -> StoreError:
    """The error that no member answers."""
    found = "; ".join(f"{at[0]}:{at[1]} ({why})" for at, why in problems.items())
    return StoreError(f"etcd does not answer at {found}")


def members_of(netloc: str) -> list[Server]:
    """Host and port of each member of etcd in a URL, separated by commas, once."""
    members = [urlsplit(f"//{member}") for member in netloc.split(",")]
    try:
        return list({(m.hostname or "", m.port or PORT): None for m in members})
    except ValueError as error:
        raise ValueError(
            f"{netloc!r} has an invalid port ({error}); pass HOST:PORT, with "
            "commas between several members of etcd"
        ) from None


def _is_readable(connection: HTTPConnection, seconds: float) -> bool:
    """Whether an answer, or the end of the connection, comes in some seconds."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))
