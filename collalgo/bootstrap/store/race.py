"""Connect with the first of several servers that can be reached."""

import errno
import os
import selectors
import socket
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

#: Host and port of a server.
Server = tuple[str, int]

#: Seconds until the next address is tried, too, while one does not answer.
STAGGER_SECONDS = 0.15


class Race:
    """Attempts to connect, of which the first that succeeds is used.

    They begin one after the other, as RFC 8305 has it for the addresses of one host, so
    that hosts that are cut off hardly delay the others.

    Parameters
    ----------
    servers
        The servers in the order in which they are tried.

    Attributes
    ----------
    problems : dict
        Why servers were not reached.
    """

    def __init__(self, servers: Sequence[Server]):
        self.problems: dict[Server, str] = {}
        self._addresses = self._resolved(servers)

    def run(self, timeout: float) -> tuple[Server, socket.socket] | None:
        """Connect with a server: which, and the socket; None if none is reached.

        The time counts from the last attempt, as a name may take long to be resolved.
        """
        end = 0.0
        with selectors.DefaultSelector() as self._selector:
            try:
                while (is_more := self._begin_next()) or self._selector.get_map():
                    end = monotonic() + timeout if is_more else end
                    wait = STAGGER_SECONDS if is_more else end - monotonic()
                    if (winner := self._first(max(wait, 0.0))) is not None:
                        return winner
                    if monotonic() >= end:
                        break
                return None
            finally:
                self._end()

    def _resolved(self, servers: Sequence[Server]) -> Iterator[tuple[Server, Any]]:
        """The addresses of the servers; names are resolved when they are tried."""
        for server in servers:
            try:
                for found in socket.getaddrinfo(*server, type=socket.SOCK_STREAM):
                    yield server, found
            except OSError as error:
                self.problems[server] = str(error)

    def _begin_next(self) -> bool:
        """Begin the next attempt; False without a further address."""
        for server, (family, kind, protocol, _, address) in self._addresses:
            try:
                connection = socket.socket(family, kind, protocol)
            except OSError as error:  # this host has no IPv6, or no descriptor is left
                self.problems[server] = os.strerror(error.errno or 0)
                continue
            connection.setblocking(False)
            code = connection.connect_ex(address)
            if code in (0, errno.EINPROGRESS):
                self._selector.register(connection, selectors.EVENT_WRITE, server)
                return True
            connection.close()
            self.problems[server] = os.strerror(code)
        return False

    def _first(self, seconds: float) -> tuple[Server, socket.socket] | None:
        """The first attempt that succeeds in some seconds."""
        for key, _ in self._selector.select(seconds):
            connection, server = key.fileobj, key.data
            assert isinstance(connection, socket.socket)
            self._selector.unregister(connection)
            error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not error:
                return server, connection
            connection.close()
            self.problems[server] = os.strerror(error)
        return None

    def _end(self) -> None:
        """End the attempts that are under way."""
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
            self.problems.setdefault(key.data, "it does not answer")
