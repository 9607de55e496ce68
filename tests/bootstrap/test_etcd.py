"""Failures of etcd only: members that do not answer, watches that break off."""

import secrets
import shutil
import ssl
import subprocess
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.protocol import StoreError
from tests.bootstrap.test_etcd_members import Forwarding
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
    assert store._gateway._members.in_order()[1] == ("127.0.0.1", 1)
    store._gateway._members.turn_to(("127.0.0.1", 1))
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
