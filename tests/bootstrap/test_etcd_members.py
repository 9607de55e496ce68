"""Members of etcd that are slow, cut off, or have lost requests."""

import json
import secrets
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from collalgo.bootstrap.store import etcd_members, etcd_wait
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.etcd_gateway import Gateway
from collalgo.bootstrap.store.etcd_members import Members, members_of
from collalgo.bootstrap.store.protocol import StoreError
from tests.support.store_clients import DEADLINE, Seen, until

pytestmark = pytest.mark.deadline


class Forwarding(BaseHTTPRequestHandler):
    """A member that keeps requests of which it has lost the leader, as etcd does."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        if self.path == "/v3/kv/txn":
            server.term += server.elected
            hold = server.answering if server.elected else server.slow
            server.elected = False
            hold.wait(20)
        header = {"raft_term": str(server.term), "revision": "5"}
        answer = json.dumps({"header": header, "succeeded": True}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("elected", [True, False])
def test_a_request_ends_with_the_leader_that_had_it_but_not_as_it_is_slow(elected):
    with ThreadingHTTPServer(("127.0.0.1", 0), Forwarding) as server:
        server.term, server.elected = 1, elected
        server.answering, server.slow = threading.Event(), threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        store = Etcd([("127.0.0.1", server.server_port)], "tests")
        if elected:
            with pytest.raises(StoreError, match="its leader has changed meanwhile"):
                store.compare_set("k", b"v", 0)
        threading.Timer(0.7, server.slow.set).start()
        assert store.compare_set("k", b"v", 0).entry.version == 5
        server.answering.set()
        store.close()
        server.shutdown()


def test_a_request_that_is_answered_after_the_end_leaves_no_connection():
    """As that of a thread of a lease, which close() does not wait for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Forwarding) as server:
        server.term, server.elected, server.slow = 1, False, threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        gateway = Gateway([("127.0.0.1", server.server_port)])
        begun, open_connection = threading.Event(), gateway._reached

        def reached(*words):
            made.append(open_connection(*words))
            begun.set()
            return made[-1]

        made, gateway._reached = [], reached
        asking = threading.Thread(target=gateway.ask, args=("kv/txn", {}))
        asking.start()
        begun.wait(DEADLINE)
        gateway.close()
        server.slow.set()
        asking.join(DEADLINE)
        assert [each.sock for each in made] == [None]
        server.shutdown()


class CutOff(BaseHTTPRequestHandler):
    """A member that is cut off from the others: it has no leader, or hangs."""

    def do_POST(self):
        if self.server.hangs or self.path != "/v3/maintenance/status":
            self.server.mended.wait(20)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"header": {"raft_term": "1"}}')

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("hangs", [False, True])
def test_another_member_is_asked_than_one_that_is_cut_off(hangs, etcd, monkeypatch):
    monkeypatch.setattr(etcd_wait, "LEADERLESS_POLLS", 1)
    with ThreadingHTTPServer(("127.0.0.1", 0), CutOff) as server:
        server.hangs, server.mended = hangs, threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        cut, other = ("127.0.0.1", server.server_port), ("127.0.0.1", etcd)
        store = Etcd([other, cut], f"etcd {secrets.token_hex(4)}")
        store.set("k", b"1")
        seen = Seen()
        store.watch("k", seen)
        until(lambda: seen.pairs() == [("k", b"1")])
        store._gateway._members.turn_to(cut)
        store._gateway.close()  # the connections
        assert store.read("k").value == b"1"
        assert store._gateway._members.in_order()[0] == other
        store.set("k", b"2")
        until(lambda: seen.pairs()[-1] == ("k", b"2"))
        store.remove()
        store.close()
        server.mended.set()
        server.shutdown()


def test_a_member_without_a_leader_is_left_as_soon_as_another_has_one(
    etcd, monkeypatch
):
    monkeypatch.setattr(etcd_wait, "LEADERLESS_POLLS", float("inf"))
    with ThreadingHTTPServer(("127.0.0.1", 0), CutOff) as server:
        server.hangs, server.mended = False, threading.Event()
        threading.Thread(target=server.serve_forever).start()
        cut, other = ("127.0.0.1", server.server_port), ("127.0.0.1", etcd)
        store = Etcd([cut, other], f"etcd {secrets.token_hex(4)}")
        assert store._gateway._members.in_order()[0] == cut
        store.set("k", b"1")
        assert store._gateway._members.in_order()[0] == other
        store.remove()
        store.close()
        server.mended.set()
        server.shutdown()


class Silent(BaseHTTPRequestHandler):
    """A member that is slow: it answers when the other was asked, or after polls."""

    def do_POST(self):
        self.server.asked.append(self.path)
        if self.server.is_slow:
            self.server.ended.wait(0.2)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"header": {"revision": "5"}, "leader": "7"}')

    def log_message(self, *_):
        pass


def test_a_slow_member_is_not_one_without_a_leader(monkeypatch):
    monkeypatch.setattr(etcd_wait, "POLL_SECONDS", 0.04)
    monkeypatch.setattr(etcd_members, "PROBE_SECONDS", 0.04)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Silent) as slow,
        ThreadingHTTPServer(("127.0.0.1", 0), Silent) as other,
    ):
        for each in (slow, other):
            each.asked, each.is_slow, each.ended = [], each is slow, threading.Event()
            threading.Thread(target=each.serve_forever, args=(0.01,)).start()
        ports = slow.server_port, other.server_port
        gateway = Gateway([("127.0.0.1", port) for port in ports])
        assert gateway.ask("kv/range", {})["leader"] == "7"
        assert slow.asked.count("/v3/maintenance/status") > 1
        assert not other.asked
        gateway.close()
        for each in (slow, other):
            each.shutdown()


def test_a_member_that_a_url_names_twice_is_one():
    found = members_of("a:1,b,a:1,b:2379")
    assert found == [("a", 1), ("b", 2379)]


class Losing(BaseHTTPRequestHandler):
    """A member that tells its leaders one after the other, and may lose requests."""

    def do_POST(self):
        server = self.server
        found = {"header": {"raft_term": "1", "revision": "5"}}
        if self.path == "/v3/maintenance/status":
            found["leader"] = server.leaders.pop(0)
        elif server.loses:
            server.ended.wait(20)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_):
        pass


def test_what_a_member_was_asked_without_a_leader_is_asked_again():
    """It does not wait for an answer once the member has a leader again."""
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Losing) as losing,
        ThreadingHTTPServer(("127.0.0.1", 0), Losing) as other,
    ):
        losing.leaders, losing.loses = ["7", "0", *["7"] * 9], True
        other.leaders, other.loses = ["0", *["7"] * 9], False
        losing.ended = threading.Event()
        for each in (losing, other):
            threading.Thread(target=each.serve_forever).start()
        ports = losing.server_port, other.server_port
        store = Etcd([("127.0.0.1", port) for port in ports], "tests")
        assert store.set("k", b"1") == 5
        assert len(losing.leaders) > 4  # it was looked at a few times
        losing.ended.set()
        store.close()
        losing.shutdown()
        other.shutdown()


@pytest.fixture
def losing_and_other():
    """The servers of a member that loses requests, and of one that answers."""
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Losing) as losing,
        ThreadingHTTPServer(("127.0.0.1", 0), Losing) as other,
    ):
        losing.loses, losing.ended, other.loses = True, threading.Event(), False
        for each in (losing, other):
            each.leaders = ["7"] * 99
            threading.Thread(target=each.serve_forever, args=(0.01,)).start()
        yield [("127.0.0.1", each.server_port) for each in (losing, other)]
        losing.ended.set()
        losing.shutdown()
        other.shutdown()


def test_a_slow_member_is_soon_left_after_a_disturbance(losing_and_other, monkeypatch):
    """Its connection with the leader may not be repaired yet; if another answers."""
    monkeypatch.setattr(etcd_wait, "POLL_SECONDS", 0.04)
    monkeypatch.setattr(etcd_wait, "SLOW_POLLS", 10**9)
    losing, other = losing_and_other
    store = Etcd([losing, other], "tests")
    members = store._gateway._members
    members.disturb()
    assert store.set("k", b"1") == 5
    assert members.in_order()[0] == other
    assert not members.abandoned  # as an answer came at once
    members.turn_to(losing)
    store._gateway.close()  # the connections
    with pytest.raises(StoreError, match="it is slow, but 127"):
        store.compare_set("k", b"2", 5)  # it may have been carried out
    store.close()


def test_where_all_are_slow_each_request_waits_twice_as_long(monkeypatch):
    monkeypatch.setattr(etcd_wait, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(etcd_wait, "is_silent", lambda _: False)
    members = Members([("a", 1), ("b", 1)], None)
    monkeypatch.setattr(members, "status", lambda _: {"leader": "7"})
    monkeypatch.setattr(members, "answers", lambda _: True)
    members.disturb()
    polls = []
    for _ in range(4):
        mine, theirs = socket.socketpair()
        with mine, theirs, pytest.raises(ConnectionAbortedError, match="is not"):
            of_a = SimpleNamespace(sock=mine, host="a", port=1)
            wait = etcd_wait.AnswerWait(of_a, members)
            wait.run()
        polls.append(wait._polls)
    assert polls == [1, 2, 4, 8]
