"""Connecting by the arguments of ``init``: URLs, variables, stores; and bad ones."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import collalgo
from collalgo import BootstrapError
from collalgo.bootstrap.foreign_stores import SharedPrefix
from collalgo.bootstrap.init_urls import connect_by_url
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.store.etcd import Etcd
from tests.integrations.test_torch import BIN
from tests.support.connecting import RANK, all_connect
from tests.support.leisure import at_leisure

#: Connecting on one host and across hosts, where it is done again with the same URL.
WAYS = [("one", 1), ("several", 2)]


@pytest.mark.parametrize(("hosts", "times"), WAYS)
def test_ranks_connect_over_a_folder_and_leave_nothing(hosts, times, tmp_path):
    folder = tmp_path / "a b" / "job"
    for _ in range(times):
        all_connect(f"file://{str(folder).replace(' ', '%20')}", tmp_path, hosts)
        assert not folder.exists()


@pytest.mark.parametrize(("hosts", "times"), at_leisure(WAYS, {("several", 2)}))
def test_ranks_connect_over_etcd_and_leave_nothing(hosts, times, tmp_path, etcd):
    for _ in range(times):
        all_connect(f"etcd://127.0.0.1:1,127.0.0.1:{etcd}/my%20jobs/7", tmp_path, hosts)
    collalgo.init().close()  # of an earlier test
    store = Etcd([("127.0.0.1", etcd)], "my jobs")
    assert store.entries("") == {}
    store.set("7/said/0", b"another's")
    with pytest.raises(BootstrapError, match="another job has used etcd://"):
        collalgo.init(f"etcd://127.0.0.1:{etcd}/my jobs/7", rank=0, size=2)
    store.remove()
    with pytest.raises(
        BootstrapError, match=r"0\.3 s for rank 1, which has not joined"
    ):
        url = f"etcd://127.0.0.1:{etcd}/my jobs/8"
        collalgo.init(url, rank=0, size=2, join_timeout=0.3)
    assert store.entries("") == {}
    store.close()


class Horovod(BaseHTTPRequestHandler):
    """The server that horovodrun keeps: values are put and got at /SCOPE/KEY."""

    def do_PUT(self):
        length = int(self.headers["Content-Length"])
        self.server.values[self.path] = self.rfile.read(length)
        self.send_response(200)
        self.end_headers()

    def do_GET(self):
        value = self.server.values.get(self.path)
        self.send_response(404 if value is None else 200)
        self.send_header("Content-Length", str(len(value or b"")))
        self.end_headers()
        self.wfile.write(value or b"")

    def log_message(self, *_):
        pass


OF_HOROVODRUN = """
import os
import numpy as np, collalgo
os.environ['COLLALGO_HOST'] = str(int(os.environ['HOROVOD_RANK']) // 2)
comm = collalgo.init()
assert comm.hosts == (0, 0, 1)
assert comm.allreduce(np.ones(3))[0] == 3
"""


def test_ranks_of_horovodrun_connect_across_hosts(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(OF_HOROVODRUN)
    with ThreadingHTTPServer(("127.0.0.1", 0), Horovod) as server:
        server.values = {}
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        common = {
            **os.environ, "UCX_TLS": "tcp,self", "HOROVOD_SIZE": "3",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.server_port),
        }  # fmt: skip
        ranks = [
            subprocess.Popen(
                [sys.executable, script],
                env={**common, "HOROVOD_RANK": str(rank), "HOROVOD_LOCAL_SIZE": local},
            )
            for rank, local in enumerate("221")
        ]
        codes = [rank.wait(60) for rank in ranks]
        server.shutdown()
    assert codes == [0, 0, 0]


def test_ranks_connect_by_an_address(tmp_path, reserved_port):
    url = f"tcp://127.0.0.1:{reserved_port}"
    all_connect(url, tmp_path, COLLALGO_SECRET="ab" * 16)


@pytest.mark.parametrize("hosts", at_leisure(["one", "several"], {"one"}))
def test_ranks_connect_by_the_variables_of_torchrun(hosts, tmp_path, reserved_port):
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserved_port)}
    all_connect("env://", tmp_path, hosts, COLLALGO_SECRET="ab" * 16, **where)


def test_env_needs_no_secret_on_one_host(tmp_path, reserved_port):
    where = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(reserved_port)}
    all_connect("env://", tmp_path, **where)


def test_a_missing_secret_is_asked_for(monkeypatch):
    collalgo.init().close()
    monkeypatch.delenv("COLLALGO_SECRET", raising=False)
    where = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1"}
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", **where}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BootstrapError, match=r"no secret.*COLLALGO_SECRET.*localhost"):
        collalgo.init("env://")
    with pytest.raises(BootstrapError, match=r"no secret.*COLLALGO_SECRET"):
        collalgo.init("tcp://192.0.2.1:1", rank=0, size=2)


def error_of(url, rank, secret, timeout, size=2):
    with pytest.raises(BootstrapError) as caught:  # init takes one call at a time
        connect_by_url(JoinArguments(url, rank, size, secret, timeout=timeout))
    return caught.value


@pytest.mark.parametrize("scheme", ["tcp", "file", "etcd", "a store"])
@pytest.mark.parametrize("sizes", [(2, 3), (3, 2)])
def test_ranks_that_know_different_sizes_tell_both(
    scheme, sizes, tmp_path, reserved_port, request
):
    url = {
        "tcp": lambda: f"tcp://127.0.0.1:{reserved_port}",
        "file": lambda: f"file://{tmp_path}/meeting",
        "etcd": lambda: f"etcd://127.0.0.1:{request.getfixturevalue('etcd')}/sizes",
        "a store": lambda: Store(),
    }[scheme]()
    with ThreadPoolExecutor(2) as pool:
        errors = [
            pool.submit(error_of, url, rank, "of the job", 60, size)
            for rank, size in enumerate(sizes)
        ]
        for rank, error in enumerate(errors):
            assert str(error.result(30)) == (
                f"rank {rank} has joined as one of {sizes[rank]} ranks but rank "
                f"{1 - rank} as one of {sizes[1 - rank]}; start all with the same "
                "number of ranks"
            )


class Store:
    """A store of a user."""

    def __init__(self):
        self._values, self._change = {}, threading.Condition()

    def set(self, key, value):
        with self._change:
            self._values[key] = value
            self._change.notify_all()

    def get(self, key, timeout):
        with self._change:
            self._change.wait_for(lambda: key in self._values, timeout)
            return self._values[key]


def test_ranks_with_different_secrets_name_the_secret(caplog, reserved_port):
    url = f"tcp://127.0.0.1:{reserved_port}"
    with ThreadPoolExecutor(1) as pool:
        root = pool.submit(error_of, url, 0, "of the job", 4)
        error = error_of(url, 1, "of another", 60)
        assert not root.done()
        at_root = root.result(20)
    assert str(error).startswith(f"the store at {url[6:]} has another secret than this")
    assert "it does not know the secret" in caplog.text
    assert "rank 1, which has not joined" in str(at_root)
    assert "127.0.0.1 have tried to join with another secret" in str(at_root)
    assert (at_root.rank, at_root.missing) == (0, (1,))
    for each in (error, at_root):
        assert "pass the same secret= on all ranks" in str(each)
        assert "of the job" not in str(each)


def test_ranks_connect_over_a_store_of_the_user(tmp_path):
    script = RANK.replace("init(url,", "init(Folder(Path(url)),").replace(
        "import os, sys",
        "import os, sys\nfrom pathlib import Path\n"
        "from collalgo.bootstrap.folder import Folder",
    )
    path = tmp_path / "rank.py"
    path.write_text(script)
    command = [sys.executable, path]
    ranks = [
        subprocess.Popen([*command, str(rank), "2", str(tmp_path / "store"), "one"])
        for rank in range(2)
    ]
    assert [rank.wait(60) for rank in ranks] == [0, 0]


@pytest.mark.skipif(not (BIN.parent / "installed").exists(), reason="make torch")
@pytest.mark.slow
def test_ranks_of_torchrun_connect_across_hosts(tmp_path, reserved_port):
    """Two agents of torchrun, whose ranks see one of them on each host."""
    script = tmp_path / "rank.py"
    script.write_text(
        "import os\nimport numpy as np, collalgo\n"
        "os.environ['COLLALGO_HOST'] = os.environ['GROUP_RANK']\n"
        "comm = collalgo.init()\n"
        "assert comm.hosts == (0, 0, 1, 1)\n"
        "assert comm.allreduce(np.ones(3))[0] == 4\n"
    )
    agents = [
        subprocess.Popen(
            [BIN / "python", "-m", "torch.distributed.run", "--nnodes", "2",
             "--nproc-per-node", "2", "--node-rank", str(node),
             "--master-addr", "127.0.0.1", "--master-port", str(reserved_port), script],
            env={**os.environ, "UCX_TLS": "tcp,self", "OMP_NUM_THREADS": "1"},
        )
        for node in range(2)
    ]  # fmt: skip
    assert [agent.wait(100) for agent in agents] == [0, 0]


def test_keys_of_others_below_a_prefix_stay(new_store):
    store = new_store()
    store.set("settings", b"of another program")
    shared = [SharedPrefix(store, "etcd://a/shared") for _ in range(3)]
    for rank, each in enumerate(shared):
        each.set(f"said/{rank}", b"x")
    for rank in range(2):
        shared[0].get(f"said/{rank}", 1)
    shared[2].take_back()
    shared[0].remove()
    assert {k: e.value for k, e in store.entries("").items()} == {
        "settings": b"of another program"
    }


@pytest.mark.parametrize(
    "url",
    [
        "http://a:1", "file://host/path", "tcp://", "file://", "etcd://a:1", "foo",
        "a:b", "tcp://a:99999", "file:///a%00b",
        "file:///a\0b",
    ],
)  # fmt: skip
def test_what_is_no_rendezvous_url_is_refused(url):
    with pytest.raises(ValueError, match="is not a rendezvous URL; pass env://"):
        collalgo.init(url, rank=0, size=1)


def test_a_port_that_cannot_be_is_named():
    with pytest.raises(ValueError, match=r"'h:99999' has an invalid port"):
        collalgo.init("etcd://h:99999/x", rank=0, size=1)


def test_bad_arguments_are_refused(monkeypatch, tmp_path):
    collalgo.init().close()
    with pytest.raises(ValueError, match="needs rank and size too"):
        collalgo.init("file:///tmp/x")
    with pytest.raises(TypeError, match="init: dict is not a store"):
        collalgo.init({}, rank=0, size=1)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BootstrapError, match="RANK, WORLD_SIZE, MASTER_ADDR"):
        collalgo.init("env://")
    began = time.monotonic()
    with pytest.raises(BootstrapError):
        url = f"file://{tmp_path}/job"
        collalgo.init(url, rank=0, size=2, join_timeout=0.3)
    assert time.monotonic() - began < 5
    assert not (tmp_path / "job").exists()
