"""Hostile or broken clients of the embedded store; it and its clients go on."""

import logging
import secrets
import socket
import threading
import time

import pytest

from collalgo.bootstrap.store import server as server_module
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.connection import exactly
from collalgo.bootstrap.store.protocol import KEY_BYTES, StoreError, add
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.store.session import (
    HEAD,
    HELLO_BYTES,
    LARGEST,
    WELCOME_BYTES,
    ProtocolError,
    Session,
)
from tests.bootstrap.conftest import SECRET
from tests.support.store_clients import enter

pytestmark = pytest.mark.deadline


def test_a_wrong_secret_is_refused_and_logged_once(connect, caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        with pytest.raises(StoreError, match="no store was found"):
            connect(b"another", timeout=0.1)
    good = connect()
    good.set("a", b"1")
    assert caplog.text.count("was refused: it does not know the secret") == 1


def test_a_secret_is_refused_at_once_only_after_a_while(server, connect):
    """The store of an earlier job may still end, and the right one then begin."""
    late = []

    def replace():
        time.sleep(0.3)
        server.close()
        late.append(server_module.Server(b"another", "127.0.0.1", server.port))

    other = threading.Thread(target=replace)
    other.start()
    client = connect(b"another", timeout=20)
    other.join()
    client.set("a", b"1")
    client.close()
    late[0].close()
    server_again = server_module.Server(SECRET)
    with pytest.raises(StoreError, match="has another secret than this process"):
        Client(["127.0.0.1"], server_again.port, b"another", 60)
    assert server_again.other_secrets == {"127.0.0.1"}
    server_again.close()


def send_noise(connection):
    with pytest.raises(OSError):  # disconnected while it still sends
        for _ in range(50):
            connection.sendall(secrets.token_bytes(10_000))
            time.sleep(0.01)


def test_unauthenticated_connections_disturb_no_client(
    server, connect, caplog, monkeypatch
):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(server_module, "PROOF_SECONDS", 0.3)
    good = connect()
    address = "127.0.0.1", server.port
    silent = socket.create_connection(address)
    half = socket.create_connection(address)
    half.sendall(b"x" * 10)
    noise = socket.create_connection(address)
    send_noise(noise)
    good.set("a", b"1")
    silent.settimeout(5)
    assert len(silent.recv(100)) == HELLO_BYTES
    assert silent.recv(100) == b""  # disconnected
    assert good.get("a", 1) == b"1"
    assert add(good, "n", 1) == 1
    for stranger in (silent, half, noise):
        stranger.close()
    assert caplog.text.count("was refused") == 1


@pytest.mark.parametrize(
    "fields",
    [
        [b"1", b"explode"],
        [b"1", b"set", b"too few"],
        [b"1"],
        [],
        [b"1", b"compare_set", b"k", b"v", b"no number", b""],
        [b"1", b"lease", b"no number"],
        [b"1", b"lease", b"-1"],
        [b"1", b"lease", b"inf"],
        [b"1", b"set", b"", b"v", b""],
        [b"1", b"set", b"\xff", b"v", b""],
        [b"1", b"set", b"k" * (KEY_BYTES + 1), b"v", b""],
        [b"1", b"wait", b"\xff"],
        [b"1", b"delete", b"k", b"1", b"2"],
        [b"1", b"set", b"k", b"v", b"", b"a fence without its version"],
        [b"1", b"set", b"k", b"v", b"", b"fence", b"no number"],
        [b"1", b"compare_set", b"k", b"v", b"0", b"", b"\xff", b"1"],
    ],
)
def test_a_client_whose_command_is_malformed_is_disconnected(server, fields):
    connection, session = enter(server)
    connection.sendall(session.frame(fields))
    assert connection.recv(100) == b""
    connection.close()


def test_frames_cannot_be_forged_repeated_or_too_long(server):
    for forge in (
        lambda frame: frame[:-1] + b"?",
        lambda frame: frame + frame,
        lambda frame: HEAD.pack(LARGEST + 1, b"") + frame,
    ):
        connection, session = enter(server)
        connection.sendall(forge(session.frame([b"1", b"set", b"k", b"v", b""])))
        with pytest.raises(EOFError):
            while True:
                exactly(connection, 1)
        connection.close()


def test_a_store_that_does_not_know_the_secret_is_not_believed():
    session, imposter = Session(SECRET, is_store=False), Session(b"?", is_store=True)
    session.claim(imposter.hello())
    with pytest.raises(ProtocolError, match="does not know the secret"):
        session.check(bytes(WELCOME_BYTES))
    with pytest.raises(ProtocolError, match="not a store of this version"):
        session.claim(b"HTTP/1.1 400 Bad Request" + bytes(30))


def test_a_client_that_does_not_read_is_dropped(server, connect, monkeypatch):
    monkeypatch.setattr(server_module, "BACKLOG", 1 << 20)
    good = connect()
    connection, session = enter(server)
    good.set("large", bytes(1 << 20))
    with pytest.raises(OSError):
        for number in range(100):
            connection.sendall(session.frame([b"%d" % number, b"get", b"large"]))
            time.sleep(0.01)
    connection.close()
    assert good.get("large", 5) == bytes(1 << 20)


def test_a_connection_made_as_the_store_ends_logs_nothing(caplog):
    for _ in range(30):
        store = Server(SECRET, "127.0.0.1")
        place = "127.0.0.1", store.port
        connections = [socket.create_connection(place) for _ in range(8)]
        store.close()
        for connection in connections:
            connection.close()
    assert not caplog.records
