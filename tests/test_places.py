"""Places to meet: folders, addresses, variables, stores, and those that will not do."""

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import collalgo
from collalgo import BootstrapError
from collalgo.bootstrap.boards import Folder
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.launch.ranks import free_port
from tests.test_torch import BIN

pytestmark = pytest.mark.parallel

RANK = """
import os, sys
import numpy as np, collalgo
rank, size, place, hosts = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if hosts == "several":
    os.environ["COLLALGO_HOST"] = str(rank % 2)
if place == "env://":
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    comm = collalgo.init(place)
else:
    comm = collalgo.init(place, rank=rank, size=size)
assert comm.allreduce(np.array([rank]))[0] == size * (size - 1) // 2
assert len(set(comm.hosts)) == (2 if hosts == "several" else 1)
print("right")
"""


def all_meet(place, tmp_path, hosts="one", size=3, **environment):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(size), place, hosts],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "UCX_TLS": "tcp,self", **environment},
        )
        for rank in reversed(range(size))
    ]  # fmt: skip
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [(r.returncode, text) for r, text in zip(ranks, said, strict=True)] == [
        (0, "right\n")
    ] * size


@pytest.mark.parametrize("hosts", ["one", "several"])
def test_ranks_meet_in_a_folder_and_leave_nothing(hosts, tmp_path):
    folder = tmp_path / "a b" / "job"
    for _ in range(2):
        all_meet(f"file://{str(folder).replace(' ', '%20')}", tmp_path, hosts)
        assert not folder.exists()


@pytest.mark.parametrize("hosts", ["one", "several"])
def test_ranks_meet_in_etcd_and_leave_nothing(hosts, tmp_path, etcd):
    for _ in range(2):
        all_meet(f"etcd://127.0.0.1:1,127.0.0.1:{etcd}/my%20jobs/7", tmp_path, hosts)
    collalgo.init().close()  # of an earlier test
    store = Etcd([("127.0.0.1", etcd)], "my jobs")
    assert store.keys("") == []
    store.set("7/said/0", b"another's")
    with pytest.raises(BootstrapError, match="another job has met in etcd://"):
        collalgo.init(f"etcd://127.0.0.1:{etcd}/my jobs/7", rank=0, size=2)
    store.remove()
    with pytest.raises(BootstrapError, match="nobody has set said/1 in"):
        place = f"etcd://127.0.0.1:{etcd}/my jobs/8"
        collalgo.init(place, rank=0, size=2, join_timeout=0.3)
    assert store.keys("") == []
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


def test_ranks_of_horovodrun_meet_across_hosts(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(
        "import os\nimport numpy as np, collalgo\n"
        "os.environ['COLLALGO_HOST'] = str(int(os.environ['HOROVOD_RANK']) // 2)\n"
        "comm = collalgo.init()\n"
        "assert comm.hosts == (0, 0, 1)\n"
        "assert comm.allreduce(np.ones(3))[0] == 3\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Horovod) as server:
        server.values = {}
        threading.Thread(target=server.serve_forever).start()
        common = {
            **os.environ,
            "UCX_TLS": "tcp,self",
            "HOROVOD_SIZE": "3",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.server_port),
        }
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


def test_ranks_meet_at_an_address(tmp_path):
    place = f"tcp://127.0.0.1:{free_port()}"
    all_meet(place, tmp_path, COLLALGO_SECRET="ab" * 16)


@pytest.mark.parametrize("hosts", ["one", "several"])
def test_ranks_meet_as_the_variables_say(hosts, tmp_path):
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    all_meet("env://", tmp_path, hosts, COLLALGO_SECRET="ab" * 16, **where)


def test_ranks_meet_over_a_store_of_their_own(tmp_path):
    script = RANK.replace("init(place,", "init(Folder(Path(place)),").replace(
        "import os, sys",
        "import os, sys\nfrom pathlib import Path\n"
        "from collalgo.bootstrap.boards import Folder",
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
def test_ranks_of_torchrun_meet_across_hosts(tmp_path):
    """Two agents of torchrun, whose ranks see one of them on each host."""
    script = tmp_path / "rank.py"
    script.write_text(
        "import os\nimport numpy as np, collalgo\n"
        "os.environ['COLLALGO_HOST'] = os.environ['GROUP_RANK']\n"
        "comm = collalgo.init()\n"
        "assert comm.hosts == (0, 0, 1, 1)\n"
        "assert comm.allreduce(np.ones(3))[0] == 4\n"
    )
    port = free_port()
    agents = [
        subprocess.Popen(
            [BIN / "python", "-m", "torch.distributed.run", "--nnodes", "2",
             "--nproc-per-node", "2", "--node-rank", str(node),
             "--master-addr", "127.0.0.1", "--master-port", str(port), script],
            env={**os.environ, "UCX_TLS": "tcp,self", "OMP_NUM_THREADS": "1"},
        )
        for node in range(2)
    ]  # fmt: skip
    assert [agent.wait(100) for agent in agents] == [0, 0]


def test_a_folder_is_for_one_job_of_one_user(tmp_path):
    folder = Folder(tmp_path / "job")
    folder.set("host/0", b"mine")
    assert folder.get("host/0", 1) == b"mine"
    assert (tmp_path / "job").stat().st_mode & 0o077 == 0
    with pytest.raises(BootstrapError, match="another job has met in"):
        folder.set("host/0", b"another's")
    with pytest.raises(BootstrapError, match=r"nobody has written .*host-1 in 0\.1 s"):
        folder.get("host/1", 0.1)
    later = threading.Timer(0.2, folder.set, ("late", b"x"))
    later.start()
    assert folder.get("late", 5) == b"x"
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(BootstrapError, match="nobody else may write to it"):
        Folder(open_to_all)
    with pytest.raises(BootstrapError, match="cannot meet in"):
        Folder(Path("/proc/nowhere"))


def test_places_that_will_not_do(monkeypatch, tmp_path):
    collalgo.init().close()
    for wrong in ("http://a:1", "file://host/path", "tcp://", "file://", "etcd://a:1"):
        with pytest.raises(ValueError, match="is no place to meet; pass env://"):
            collalgo.init(wrong, rank=0, size=1)
    with pytest.raises(ValueError, match="pass rank and size too"):
        collalgo.init("file:///tmp/x")
    with pytest.raises(TypeError, match="init: dict is no store"):
        collalgo.init({}, rank=0, size=1)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BootstrapError, match="RANK, WORLD_SIZE, MASTER_ADDR"):
        collalgo.init("env://")
    began = time.monotonic()
    with pytest.raises(BootstrapError):
        place = f"file://{tmp_path}/job"
        collalgo.init(place, rank=0, size=2, join_timeout=0.3)
    assert time.monotonic() - began < 5
    assert not (tmp_path / "job").exists()
