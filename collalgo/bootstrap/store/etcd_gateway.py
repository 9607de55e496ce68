"""Requests to etcd v3 by its HTTP gateway: JSON over connections that are kept."""

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPResponse
from socket import socket
from typing import Any, TypeVar
from weakref import WeakSet

from collalgo.base.finalizers import Lock
from collalgo.bootstrap.store.certificates import context_of_environment
from collalgo.bootstrap.store.etcd_members import Members
from collalgo.bootstrap.store.etcd_messages import Stream, accepted, as_object, term_of
from collalgo.bootstrap.store.etcd_wait import AnswerWait
from collalgo.bootstrap.store.liveness import is_closed_by_peer, keep_alive
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS, StoreError
from collalgo.bootstrap.store.race import Race, Server

T = TypeVar("T")

#: Seconds to connect with a member.
CONNECT_SECONDS = 2.0

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
        self._members = Members(members, context or context_of_environment())
        self._idle: list[HTTPConnection] = []
        self._streams: WeakSet[Stream] = WeakSet()
        self._lock = Lock()
        self._is_closed = False

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
            if not self._is_closed:
                self._idle.append(connection)
                return answer
        connection.close()
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
        left = len(self._members.in_order())
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
        self._members.term = max(self._members.term, term_of(found))
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
        self._members.secure(connection)
        wait = AnswerWait(connection, self._members)
        connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
        wait.run()
        return accepted(connection, path)

    def close(self) -> None:
        """Close the idle connections, and those of present requests once answered."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _open(self, problems: dict[Server, str]) -> HTTPConnection | None:
        """A connection with a member that can be reached, if possible the current."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            if idle.sock is not None and not is_closed_by_peer(idle.sock):
                return idle
            idle.close()
        race = Race(self._members.in_order())
        reached = race.run(CONNECT_SECONDS)
        problems.update(race.problems)
        return None if reached is None else self._reached(*reached)

    def _reached(self, member: Server, connected: socket) -> HTTPConnection:
        """A connection with a member, which is the current one from now on."""
        self._members.turn_to(member)
        connection = self._members.connection(member)
        connected.settimeout(ANSWER_SECONDS)
        keep_alive(connected)
        connection.sock = connected
        return connection

    def _fail(
        self, connection: HTTPConnection, error: Exception, problems: dict[Server, str]
    ) -> None:
        """Record the failure of a member, and switch to the next one."""
        connection.close()
        member = connection.host, connection.port
        problems[member] = str(error)
        self._members.leave(member)
        with self._lock:
            streams = [each for each in self._streams if each.member == member]
        self._close_idle()
        for stream in streams:  # they begin again at another member
            stream.close()


def _no_answer(problems: Mapping[Server, str]) -> StoreError:
    """The error that no member answers."""
    found = "; ".join(f"{at[0]}:{at[1]} ({why})" for at, why in problems.items())
    return StoreError(f"etcd does not answer at {found}")
