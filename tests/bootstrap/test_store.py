"""The embedded store: how connections, leases and the store itself end."""

import gc
import os
import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from threading import Event, Thread
from unittest.mock import patch

import pytest

from collalgo.bootstrap.store import client as client_module, server as server_module
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.connection import exactly
from collalgo.bootstrap.store.protocol import LeaseExpired, NotSet, StoreError
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.store.session import (
    CLAIM_BYTES,
    HEAD,
    LARGEST,
    Session,
)
from collalgo.launch.environment import free_port
from tests.bootstrap.conftest import SECRET
from tests.support.store_clients import enter

pytestmark = pytest.mark.deadline


def holders(server):
    """The client of the server that holds the lease of each key."""
    leases = server._data._lease_of
    return {key: lease.holder for key, lease in leases.items()}


def test_a_large_value_arrives_whole_and_a_larger_one_is_refused(connect):
    value = secrets.token_bytes(3_000_000)
    connect().set("large", value)
    assert connect().get("large", 5) == value
    with pytest.raises(ValueError, match="are more than"):
        connect().set("larger", bytes(LARGEST))


def test_leases_end_with_the_connection_of_their_holder(connect):
    holder, other = connect(), connect()
    lease = holder.lease(3600)
    holder.set("leased", b"1", lease=lease)
    holder.set("kept", b"1")
    holder.set("taken over", b"1", lease=lease)
    other.set("taken over", b"2")
    gone = Event()
    other.watch("leased", lambda change: change.value is None and gone.set())
    holder.close()
    assert gone.wait(5)
    assert list(other.entries("")) == ["kept", "taken over"]


def test_a_lease_is_of_no_use_to_another_client(connect):
    holder, other = connect(), connect()
    lease = holder.lease(3600)
    with pytest.raises(LeaseExpired):
        other.set("mine", b"", lease=lease)
    assert not other._renew(lease.identifier)
    other._end(lease.identifier)
    holder.set("mine", b"", lease=lease)


def test_a_store_that_was_paused_ends_no_lease(server, connect):
    """It has not read the renewals; a second pause of the same kind changes nothing."""
    holder = connect()
    lease = holder.lease(0.5)
    holder.set("mine", b"", lease=lease)
    for _ in range(2):
        server._loop.call_soon_threadsafe(time.sleep, 1.5)
        time.sleep(0.1)
        assert connect().read("mine") is not None
        time.sleep(0.7)


def test_processes_of_a_host_that_is_silent_are_lost_together(
    server, connect, monkeypatch
):
    """A connection of the first times out; of the second the kernel has no answer."""
    first, second, lively, other = (connect() for _ in range(4))
    for i, client in enumerate((first, second, lively)):
        client.set(f"alive/{i}", b"", lease=client.lease(3600))
    holder = holders(server)
    silent = property(lambda client: client is holder[b"alive/1"])
    monkeypatch.setattr(server_module.ServedClient, "is_silent", silent)
    told, both = [], Event()

    def alive(change):
        if change.value is None:
            told.append(change.key)
            if len(told) == 2:
                both.set()

    other.watch("alive/", alive)
    reader = holder[b"alive/0"].writer.transport.get_protocol()._stream_reader
    server._loop.call_soon_threadsafe(reader.set_exception, TimeoutError())
    assert both.wait(5)
    assert set(told) == {"alive/0", "alive/1"}
    assert list(other.entries("alive/")) == ["alive/2"]


def test_clients_learn_of_the_loss_of_the_store(server, connect):
    told = Event()
    client = connect(lost=lambda _: told.set())
    server.close()
    assert told.wait(5)
    with pytest.raises(StoreError, match="the connection with the store is lost"):
        client.get("a", 5)


def test_a_store_can_be_closed_right_after_a_client_connects():
    for _ in range(50):
        told = Event()
        store = Server(SECRET, "127.0.0.1")
        client = Client(
            ["127.0.0.1"], store.port, SECRET, 5, lambda _, told=told: told.set()
        )
        began = time.monotonic()
        store.close()
        assert told.wait(5)
        assert time.monotonic() - began < 4
        client.close()


def test_a_closing_store_does_not_end_the_leases_of_its_clients():
    told = []

    def watcher(change):
        if change.value is None:
            told.append(change.key)

    for _ in range(20):
        store = Server(SECRET, "127.0.0.1")
        clients = [Client(["127.0.0.1"], store.port, SECRET, 5) for _ in range(6)]
        for number, client in enumerate(clients):
            client.set(f"alive/{number}", b"", lease=client.lease(3600))
            client.watch("alive/", watcher)
        store.close()
        for client in clients:
            client.close()
    assert not told


def accepted():
    """A client, with the connection and session of the test as its store."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor() as pool,
    ):
        host, port = listener.getsockname()
        coming = pool.submit(Client, [host], port, SECRET, 5)
        connection, _ = listener.accept()
        session = Session(SECRET, is_store=True)
        connection.sendall(session.hello())
        connection.sendall(session.welcome(exactly(connection, CLAIM_BYTES)))
        return coming.result(), connection, session


def test_closing_a_client_waits_until_the_store_has_read_all():
    """A closed socket would be reset by the store's next write, its data unread."""
    client, connection, session = accepted()
    client.post("last", b"words")
    closing = Thread(target=client.close)
    closing.start()
    for _ in range(3):
        connection.sendall(session.frame([b"", b"1", b"key", b"7"]))
        time.sleep(0.05)
    head = exactly(connection, HEAD.size)
    said = session.fields(head, exactly(connection, session.length(head)))
    assert said[1:] == [b"set", b"last", b"words", b""]
    assert connection.recv(1) == b""
    assert closing.is_alive()
    connection.close()
    closing.join(1)
    assert not closing.is_alive()


def test_the_last_frames_of_a_killed_client_are_read(server, connect):
    """To write to a connection that is closed would end it unread."""
    connection, session = enter(server)
    connection.sendall(session.frame([b"1", b"lease", b"3600"]))
    connection.sendall(session.frame([b"2", b"set", b"mine", b"", b"1"]))
    connect().get("mine", 5)
    served = holders(server)[b"mine"]
    closed, spoken = Event(), Event()

    def speak():
        closed.wait(5)
        for _ in range(2):
            served.send(b"", b"1", b"key", b"7")
            time.sleep(0.05)  # in which the other kernel refuses it
        spoken.set()

    server._loop.call_soon_threadsafe(speak)
    connection.sendall(session.frame([b"3", b"set", b"last", b"words", b""]))
    connection.close()
    closed.set()
    assert spoken.wait(5)
    assert connect().get("last", 5) == b"words"


def test_closing_a_client_does_not_wait_long_for_a_busy_store(
    server, connect, monkeypatch
):
    monkeypatch.setattr(client_module, "DRAIN_SECONDS", 0.2)
    client, opened = connect(), Event()
    server._loop.call_soon_threadsafe(opened.wait, 5)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 3
    opened.set()


def test_a_wait_that_ends_without_a_value_leaves_nothing(connect):
    client = connect()
    before = len(client._connection._answers)
    for _ in range(3):
        with pytest.raises(NotSet):
            client.get("never", 0.0)
    client.set("never", b"now")
    assert client.get("never") == b"now"
    assert len(client._connection._answers) == before


def test_a_client_closed_here_reports_no_loss(connect):
    told = Event()
    client = connect(lost=lambda _: told.set())
    client.close()
    assert not told.is_set()
    with pytest.raises(StoreError, match="closed here"):
        client.set("a", b"")


def test_nothing_is_left_of_a_store(connect):
    connect().close()
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    store = Server(SECRET, "127.0.0.1")
    client = Client(["127.0.0.1"], store.port, SECRET, 5)
    client.set("a", b"")
    client.close()
    store.close()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_a_malformed_frame_of_a_store_ends_the_connection(server, connect):
    lost, reasons = Event(), []
    client = connect(lost=lambda why: (reasons.append(why), lost.set()))
    client.set("mine", b"", lease=client.lease(3600))
    served = holders(server)[b"mine"]
    server._loop.call_soon_threadsafe(served.send, b"", b"too few")
    assert lost.wait(5)
    assert reasons == ["the store has sent a malformed frame"]


def test_a_store_is_closed_as_soon_as_it_is_made():
    for _ in range(100):
        Server(SECRET, "127.0.0.1").close()


def test_a_client_does_not_take_itself_for_the_store():
    """A connection with a free port from that very port succeeds, as TCP defines it."""
    port = free_port()
    own = partial(socket.create_connection, source_address=("127.0.0.1", port))
    with (
        patch.object(socket, "create_connection", own),
        pytest.raises(StoreError, match="TCP connected to itself"),
    ):
        Client(["127.0.0.1"], port, SECRET, 0.0)


def test_a_store_listens_at_an_address_of_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"::1 cannot be used: {error.strerror}")
    server = Server(SECRET, "::1")
    with closing(server), closing(Client(["::1"], server.port, SECRET, 10)) as client:
        client.set("key", b"value")
        assert client.get("key", 10) == b"value"
