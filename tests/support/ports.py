"""Ports of this host for the servers of a test."""

import random
import socket
import time
from contextlib import ExitStack, contextmanager, suppress


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


def free_ports(count):
    """Ports of this host for servers that refuse those of :func:`reserved_ports`.

    They are below those that Linux gives to sockets that ask for any port.
    """
    found = []
    while len(found) < count:
        with socket.socket() as each, suppress(OSError):
            each.bind(("127.0.0.1", random.randrange(10000, 30000)))
            found.append(each.getsockname()[1])
    return found


def adjacent_ports(count):
    """The first of ``count`` adjacent ports for servers, below those of Linux, too."""
    while True:
        first = random.randrange(10000, 30000 - count)
        with ExitStack() as bound, suppress(OSError):
            for port in range(first, first + count):
                bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


def await_server(server, port):
    """Wait until a process listens to a port, has ended, or takes too long."""
    end = time.monotonic() + 20
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
