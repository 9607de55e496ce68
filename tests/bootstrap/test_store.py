"""The store of a job: its verbs, and visitors that do not belong there."""

import gc
import logging
import os
import secrets
import socket
import threading
import time
from threading import Event, Thread

import pytest

from collalgo.bootstrap.store import client as client_module, server as server_module
from collalgo.bootstrap.store.client import Client, StoreError, exactly
from collalgo.bootstrap.store.etcd import LEASE, Etcd
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.store.session import (
    CLAIM_BYTES,
    HEAD,
    HELLO_BYTES,
    LARGEST,
    WELCOME_BYTES,
    Distrust,
    Session,
)

SECRET = b"of the tests"


@pytest.fixture
def server():
    store = Server(SECRET, "127.0.0.1")
    yield store
    store.close()


@pytest.fixture
def connect(server):
    clients = []

    def connect(secret=SECRET, timeout=5.0, **more):
        clients.append(Client(["127.0.0.1"], server.port, secret, timeout, **more))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture(params=["embedded", "etcd"])
def either(request):
    """Connect with the embedded store, or with etcd."""
    if request.param == "embedded":
        yield request.getfixturevalue("connect")
        return
    members = [("127.0.0.1", request.getfixturevalue("etcd"))]
    stores = []

    def connect():
        stores.append(Etcd(members, "tests of the store"))
        return stores[-1]

    yield connect
    stores[0].remove()
    for store in stores:
        store.close()


def test_what_one_sets_the_others_get(either):
    one, other = either(), either()
    one.set("a", b"\0\xff")
    assert other.get("a", 1) == b"\0\xff"
    assert other.add("n", 5) == 5
    assert one.add("n", -2) == 3
    assert one.get("n", 1) == b"3"
    assert one.compare_set("c", None, b"x") == b"x"
    assert other.compare_set("c", None, b"y") == b"x"
    assert other.compare_set("c", b"z", b"y") == b"x"
    assert other.compare_set("c", b"x", b"y") == b"y"
    assert other.compare_set("d", b"x", b"y") == b""
    assert one.keys("") == ["a", "c", "n"]
    assert one.keys("n") == ["n"]
    assert one.delete("a")
    assert not one.delete("a")
    assert one.keys("a") == []


def test_who_gets_waits_until_it_is_set_or_it_is_too_late(either):
    one, other = either(), either()
    found = []
    waiting = Thread(target=lambda: found.append(one.get("late", 5)))
    waiting.start()
    with pytest.raises(StoreError, match=r"nobody has set never in 0\.05 s"):
        other.get("never", 0.05)
    other.set("late", b"here")
    waiting.join()
    assert found == [b"here"]


def test_what_is_leased_goes_with_who_has_set_it(either):
    one, other = either(), either()
    one.set("mine", b"x", leased=True)
    one.set("ours", b"y")
    assert other.keys("") == ["mine", "ours"]
    time.sleep(LEASE + 1)  # it is renewed while its owner lives
    assert other.keys("") == ["mine", "ours"]
    one.close()
    end = time.monotonic() + 5
    while "mine" in other.keys("") and time.monotonic() < end:
        time.sleep(0.01)
    assert other.keys("") == ["ours"]


def test_numbers_that_many_add_to_are_not_lost(either):
    stores = [either() for _ in range(3)]

    def count(store):
        for _ in range(20):
            store.add("n", 1)

    threads = [Thread(target=count, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[0].get("n") == b"60"


def test_an_etcd_that_is_not_there_is_named():
    with pytest.raises(
        StoreError, match=r"not answer at 127\.0\.0\.1:1 .*; localhost:2"
    ):
        Etcd([("127.0.0.1", 1), ("localhost", 2)], "tests")


def test_a_large_value_arrives_whole_and_a_larger_one_is_refused(connect):
    value = secrets.token_bytes(3_000_000)
    connect().set("large", value)
    assert connect().get("large", 5) == value
    with pytest.raises(ValueError, match="are more than"):
        connect().set("larger", bytes(LARGEST))


def test_who_watches_is_told_of_what_is_and_of_what_comes(connect):
    one, other = connect(), connect()
    seen, over = [], Event()

    def watcher(key, value):
        seen.append((key, value))
        if key == "w/end":
            over.set()

    one.set("w/before", b"1")
    one.set("elsewhere", b"1")
    other.watch("w/", watcher)
    one.set("w/after", b"2")
    one.delete("w/before")
    one.set("w/end", b"")
    assert over.wait(5)
    assert seen == [
        ("w/before", b"1"),
        ("w/after", b"2"),
        ("w/before", None),
        ("w/end", b""),
    ]


def test_what_is_leased_goes_with_its_holder(connect):
    holder, other = connect(), connect()
    holder.set("leased", b"1", leased=True)
    holder.set("kept", b"1")
    holder.set("taken over", b"1", leased=True)
    other.set("taken over", b"2")
    gone = Event()
    other.watch("leased", lambda _, value: value is None and gone.set())
    holder.close()
    assert gone.wait(5)
    assert other.keys("") == ["kept", "taken over"]


def test_processes_of_a_host_that_is_silent_are_lost_together(
    server, connect, monkeypatch
):
    """A connection of the first times out; of the second the kernel has no answer."""
    first, second, lively, other = (connect() for _ in range(4))
    for i, client in enumerate((first, second, lively)):
        client.set(f"alive/{i}", b"", leased=True)
    holder = {key: guest for guest in server._guests for key in guest.leases}
    silent = property(lambda guest: guest is holder[b"alive/1"])
    monkeypatch.setattr(server_module._Guest, "is_silent", silent)
    told, both = [], Event()

    def alive(key, value):
        if value is None:
            told.append(key)
            if len(told) == 2:
                both.set()

    other.watch("alive/", alive)
    reader = holder[b"alive/0"].writer.transport.get_protocol()._stream_reader
    server._loop.call_soon_threadsafe(reader.set_exception, TimeoutError())
    assert both.wait(5)
    assert set(told) == {"alive/0", "alive/1"}
    assert other.keys("alive/") == ["alive/2"]


def test_clients_are_told_when_the_store_is_gone(server, connect):
    told = Event()
    client = connect(lost=lambda _: told.set())
    server.close()
    assert told.wait(5)
    with pytest.raises(StoreError, match="the connection with the store is lost"):
        client.get("a", 5)


def test_a_store_can_end_whenever_a_client_has_come():
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


def test_who_is_sent_away_at_the_end_has_not_left():
    told = []

    def watcher(key, value):
        if value is None:
            told.append(key)

    for _ in range(20):
        store = Server(SECRET, "127.0.0.1")
        clients = [Client(["127.0.0.1"], store.port, SECRET, 5) for _ in range(6)]
        for number, client in enumerate(clients):
            client.set(f"alive/{number}", b"", leased=True)
            client.watch("alive/", watcher)
        store.close()
        for client in clients:
            client.close()
    assert not told


def test_a_client_that_is_closed_waits_until_the_store_hangs_up():
    """Were it gone, what the store writes could keep it from reading the last words."""
    listener = socket.create_server(("127.0.0.1", 0))
    place, clients = listener.getsockname(), []

    def come():
        clients.append(Client([place[0]], place[1], SECRET, 5))

    coming = Thread(target=come)
    coming.start()
    connection, _ = listener.accept()
    session = Session(SECRET, is_store=True)
    connection.sendall(session.hello())
    connection.sendall(session.welcome(exactly(connection, CLAIM_BYTES)))
    coming.join()
    clients[0].tell("last", b"words")
    closing = Thread(target=clients[0].close)
    closing.start()
    for _ in range(3):
        connection.sendall(session.frame([b"", b"said by the store"]))
        time.sleep(0.05)
    head = exactly(connection, HEAD.size)
    said = session.fields(head, exactly(connection, session.length(head)))
    assert said[1:] == [b"set", b"last", b"words", b""]
    assert connection.recv(1) == b""
    assert closing.is_alive()
    connection.close()
    closing.join(1)
    assert not closing.is_alive()
    listener.close()


def test_the_last_words_of_who_is_killed_are_heard(server, connect):
    """To write to a connection that is closed would end it unread."""
    connection, session = enter(server)
    connection.sendall(session.frame([b"1", b"set", b"mine", b"", b"1"]))
    connect().get("mine", 5)
    guest = server._holder[b"mine"]
    closed, spoken = Event(), Event()

    def speak():
        closed.wait(5)
        for _ in range(2):
            guest.send(b"", b"said by the store")
            time.sleep(0.05)  # in which the other kernel refuses it
        spoken.set()

    server._loop.call_soon_threadsafe(speak)
    connection.sendall(session.frame([b"2", b"set", b"last", b"words", b""]))
    connection.close()
    closed.set()
    assert spoken.wait(5)
    assert connect().get("last", 5) == b"words"


def test_a_store_that_hears_nothing_does_not_keep_its_clients(
    server, connect, monkeypatch
):
    monkeypatch.setattr(client_module, "HEARING_SECONDS", 0.2)
    client, opened = connect(), Event()
    server._loop.call_soon_threadsafe(opened.wait, 5)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 3
    opened.set()


def test_a_client_that_is_closed_is_not_told_that_it_lost_the_store(connect):
    told = Event()
    client = connect(lost=lambda _: told.set())
    client.close()
    assert not told.is_set()
    with pytest.raises(StoreError, match="closed here"):
        client.set("a", b"")


def test_a_wrong_secret_is_refused_and_said_once(connect, caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        with pytest.raises(StoreError, match="no store was found"):
            connect(b"another", timeout=0.1)
    good = connect()
    good.set("a", b"1")
    assert caplog.text.count("was refused: it does not know the secret") == 1


def test_strangers_do_not_disturb_the_clients(server, connect, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(server_module, "PROOF_SECONDS", 0.3)
    good = connect()
    address = "127.0.0.1", server.port
    silent = socket.create_connection(address)
    half = socket.create_connection(address)
    half.sendall(b"x" * 10)
    noise = socket.create_connection(address)
    with pytest.raises(OSError):  # hung up on while it still speaks
        for _ in range(50):
            noise.sendall(secrets.token_bytes(10_000))
            time.sleep(0.01)
    good.set("a", b"1")
    silent.settimeout(5)
    assert len(silent.recv(100)) == HELLO_BYTES
    assert silent.recv(100) == b""  # hung up on
    assert good.get("a", 1) == b"1"
    assert good.add("n", 1) == 1
    for stranger in (silent, half, noise):
        stranger.close()
    assert caplog.text.count("was refused") == 1


def enter(server):
    """A client by hand: its socket and its session."""
    connection = socket.create_connection(("127.0.0.1", server.port), 5)
    session = Session(SECRET, is_store=False)
    connection.sendall(session.claim(exactly(connection, HELLO_BYTES)))
    session.check(exactly(connection, WELCOME_BYTES))
    return connection, session


@pytest.mark.parametrize(
    "fields",
    [
        [b"1", b"explode"],
        [b"1", b"set", b"too few"],
        [b"1"],
        [],
        [b"1", b"add", b"k", b"no number"],
    ],
)
def test_a_client_that_asks_for_what_is_not_there_is_hung_up_on(server, fields):
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
    with pytest.raises(Distrust, match="does not know the secret"):
        session.check(bytes(WELCOME_BYTES))
    with pytest.raises(Distrust, match="no store of this version"):
        session.claim(b"HTTP/1.1 400 Bad Request" + bytes(30))


def test_a_client_that_does_not_read_is_given_up(server, connect, monkeypatch):
    monkeypatch.setattr(server_module, "BACKLOG", 1 << 20)
    good = connect()
    connection, session = enter(server)
    good.set("large", bytes(1 << 20))
    with pytest.raises(OSError):
        for number in range(100):
            connection.sendall(session.frame([b"%d" % number, b"get", b"large", b""]))
            time.sleep(0.01)
    connection.close()
    assert good.get("large", 5) == bytes(1 << 20)


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


def test_who_comes_as_the_store_ends_makes_no_noise(caplog):
    for _ in range(30):
        store = Server(SECRET, "127.0.0.1")
        place = "127.0.0.1", store.port
        visitors = [socket.create_connection(place) for _ in range(8)]
        store.close()
        for visitor in visitors:
            visitor.close()
    assert not caplog.records
