"""Failures of etcd only: members that do not answer, watches that break off."""

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.protocol import StoreError
from tests.support.store_clients import Seen, until


@pytest.fixture
def store(etcd):
    """A store whose first member cannot be reached."""
    members = [("127.0.0.1", 1), ("127.0.0.1", etcd)]
    store = Etcd(members, f"etcd {secrets.token_hex(4)}")
    yield store
    store.remove()
    store.close()


def test_an_etcd_that_does_not_answer_is_named():
    with pytest.raises(
        StoreError, match=r"not answer at 127\.0\.0\.1:1 .*; localhost:2"
    ):
        Etcd([("127.0.0.1", 1), ("localhost", 2)], "tests")


def test_a_member_that_cannot_be_reached_is_left_out(store):
    assert store._gateway._members[1] == ("127.0.0.1", 1)
    store._gateway._members.reverse()
    store._gateway.close()  # the connections
    assert store.compare_set("k", b"v", 0).succeeded
    assert store.get("k", 1) == b"v"


@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_interrupted_watch_reports_what_differs(store, is_compacted):
    seen = Seen()
    store.set("w/deleted", b"1")
    store.set("w/kept", b"1")
    store.set("w/changed", b"1")
    watch = store.watch("w/", seen)
    until(lambda: len(seen.changes) == 3 and watch._stream is not None)
    with watch._lock:  # so that it cannot begin again before the changes
        watch._stream.close()
        store.delete("w/deleted")
        store.set("w/changed", b"2")
        last = store.set("w/changed", b"3")
        if is_compacted:
            store._gateway.ask("kv/compaction", {"revision": last})
    until(lambda: len(seen.changes) == 5)
    assert set(seen.pairs()[3:]) == {("w/deleted", None), ("w/changed", b"3")}
    store.set("w/kept", b"2")
    until(lambda: seen.pairs()[-1] == ("w/kept", b"2"))


class NoEtcd(BaseHTTPRequestHandler):
    """A web server that is no etcd."""

    def do_POST(self):
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("status", "message"),
    [(200, "is not one of etcd: b'<html>'"), (404, "etcd refuses .*: 404 <html>")],
)
def test_a_server_that_is_no_etcd_is_refused(status, message):
    with ThreadingHTTPServer(("127.0.0.1", 0), NoEtcd) as server:
        server.status = status
        threading.Thread(target=server.serve_forever).start()
        with pytest.raises(StoreError, match=message):
            Etcd([("127.0.0.1", server.server_port)], "tests")
        server.shutdown()


class Leaderless(BaseHTTPRequestHandler):
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
    with ThreadingHTTPServer(("127.0.0.1", 0), Leaderless) as server:
        server.term, server.elected = 1, elected
        server.answering, server.slow = threading.Event(), threading.Event()
        threading.Thread(target=server.serve_forever).start()
        store = Etcd([("127.0.0.1", server.server_port)], "tests")
        if elected:
            with pytest.raises(StoreError, match="its leader has changed meanwhile"):
                store.compare_set("k", b"v", 0)
        threading.Timer(0.7, server.slow.set).start()
        assert store.compare_set("k", b"v", 0).entry.version == 5
        server.answering.set()
        store.close()
        server.shutdown()
