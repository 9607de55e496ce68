"""What tests of key-value stores share: watchers, deadlines, clients by hand."""

import socket
import time

from collalgo.bootstrap.store.connection import exactly
from collalgo.bootstrap.store.session import HELLO_BYTES, WELCOME_BYTES, Session
from tests.bootstrap.conftest import SECRET

#: Seconds within which an event must be seen.
DEADLINE = 20


def until(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Seen:
    """A watcher that keeps the changes it is called with."""

    def __init__(self):
        self.changes = []

    def __call__(self, change):
        self.changes.append(change)

    def pairs(self):
        return [(change.key, change.value) for change in self.changes]


def enter(server):
    """Authenticate with a store: the socket and its session."""
    connection = socket.create_connection(("127.0.0.1", server.port), 5)
    session = Session(SECRET, is_store=False)
    connection.sendall(session.claim(exactly(connection, HELLO_BYTES)))
    session.check(exactly(connection, WELCOME_BYTES))
    return connection, session
