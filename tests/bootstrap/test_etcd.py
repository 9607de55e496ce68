"""Failures of etcd only: members that do not answer, watches that break off."""

import json
import secrets
import shutil
import ssl
import subprocess
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collalgo.bootstrap.store import etcd_gateway
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.protocol import StoreError
from tests.support.store_clients import Seen, until

pytestmark = pytest.mark.deadline


@pytest.fixture
def store(etcd):
    """A store whose first member cannot be reached."""
    prefix = f"etcd {secrets.token_hex(4)}"
    with closing(Etcd([("127.0.0.1", 1), ("127.0.0.1", etcd)], prefix)) as store:
        yield store
        store.remove()


def test_an_etcd_that_does_not_answer_is_named():
    words = r"not answer at 127\.0\.0\.1:1 .*; localhost:2"
    with pytest.raises(StoreError, match=words):
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
    [
        (200, "is not one of etcd: b'<html>'"),
        (404, "etcd refuses .*: 404 <html>"),
        (503, r"does not answer at .* \(503 <html>\)"),
    ],
)
def test_a_server_that_is_no_etcd_is_refused(status, message):
    with ThreadingHTTPServer(("127.0.0.1", 0), NoEtcd) as server:
        server.status = status
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        with pytest.raises(StoreError, match=message):
            Etcd([("127.0.0.1", server.server_port)], "tests")
        server.shutdown()


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
    monkeypatch.setattr(etcd_gateway, "LEADERLESS_POLLS", 1)
    with ThreadingHTTPServer(("127.0.0.1", 0), CutOff) as server:
        server.hangs, server.mended = hangs, threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        cut, other = ("127.0.0.1", server.server_port), ("127.0.0.1", etcd)
        store = Etcd([other, cut], f"etcd {secrets.token_hex(4)}")
        store.set("k", b"1")
        seen = Seen()
        store.watch("k", seen)
        until(lambda: seen.pairs() == [("k", b"1")])
        store._gateway._members.reverse()
        store._gateway.close()  # the connections
        assert store.read("k").value == b"1"
        assert store._gateway._members[0] == other
        store.set("k", b"2")
        until(lambda: seen.pairs()[-1] == ("k", b"2"))
        store.remove()
        store.close()
        server.mended.set()
        server.shutdown()


def test_a_member_without_a_leader_is_left_as_soon_as_another_has_one(
    etcd, monkeypatch
):
    monkeypatch.setattr(etcd_gateway, "LEADERLESS_POLLS", float("inf"))
    with ThreadingHTTPServer(("127.0.0.1", 0), CutOff) as server:
        server.hangs, server.mended = False, threading.Event()
        threading.Thread(target=server.serve_forever).start()
        cut, other = ("127.0.0.1", server.server_port), ("127.0.0.1", etcd)
        store = Etcd([cut, other], f"etcd {secrets.token_hex(4)}")
        assert store._gateway._members[0] == cut
        store.set("k", b"1")
        assert store._gateway._members[0] == other
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
    monkeypatch.setattr(etcd_gateway, "POLL_SECONDS", 0.04)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Silent) as slow,
        ThreadingHTTPServer(("127.0.0.1", 0), Silent) as other,
    ):
        for each in (slow, other):
            each.asked, each.is_slow, each.ended = [], each is slow, threading.Event()
            threading.Thread(target=each.serve_forever, args=(0.01,)).start()
        ports = slow.server_port, other.server_port
        gateway = etcd_gateway.Gateway([("127.0.0.1", port) for port in ports])
        assert gateway.ask("kv/range", {})["leader"] == "7"
        assert slow.asked.count("/v3/maintenance/status") > 1
        assert not other.asked
        gateway.close()
        for each in (slow, other):
            each.shutdown()


def test_a_member_that_a_url_names_twice_is_one():
    found = etcd_gateway.members_of("a:1,b,a:1,b:2379")
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
def certificate(tmp_path):
    """A certificate for localhost, which is its own authority, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    made, key = tmp_path / "certificate", tmp_path / "key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", key, "-out", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


def test_with_certificates_a_member_is_asked_by_https(certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Forwarding) as server:
        server.term, server.elected, server.slow = 1, False, threading.Event()
        server.slow.set()
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        at = [("localhost", server.server_port)]
        with pytest.raises(StoreError, match="does not answer at localhost"):
            Etcd(at, "tests")
        monkeypatch.setenv("ETCDCTL_CACERT", str(certificate[0]))
        store = Etcd(at, "tests")
        assert store.compare_set("k", b"v", 0).entry.version == 5
        store.close()
        server.shutdown()
