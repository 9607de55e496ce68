"""Ports of this host for the servers of a test."""

import socket
import time
from contextlib import ExitStack, contextmanager


@contextmanager
def reserved_ports(count):
    """Ports that no other process is given, as this one has bound them.

    A server may bind and listen to them, too: Linux allows it where both sockets have
    SO_REUSEADDR and only one listens, and takes such ports neither for a socket that
    asks for any port nor for the near end of a connection.
    """
    with ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]


def await_server(server, port):
    """Wait until a process listens to a port, has ended, or takes too long."""
    end = time.monotonic() + 20
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
