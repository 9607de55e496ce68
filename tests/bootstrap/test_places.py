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
from collalgo.bootstrap.foreign_stores import INSIDE, EtcdPrefix, Folder
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.launch.environment import free_port
from tests.integrations.test_torch import BIN

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
        "from collalgo.bootstrap.foreign_stores import Folder",
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


def listed(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("inside", ["thesis.tex", ".hidden", "said-0", "first", "a/b"])
def test_a_folder_with_files_of_others_is_refused_and_stays_whole(
    size, inside, tmp_path
):
    folder = tmp_path / "mine"
    (folder / inside).parent.mkdir(parents=True)
    (folder / inside).write_bytes(b"years of work")
    before = listed(folder)
    for rank in range(size):
        with pytest.raises(BootstrapError, match=r"holds other files \(1, as"):
            collalgo.init(f"file://{folder}", rank=rank, size=size, join_timeout=0.2)
    assert listed(folder) == before


def test_a_file_that_comes_while_ranks_meet_stays(tmp_path):
    folder = tmp_path / "job"
    board = Folder(folder)
    board.set("said/0", b"x")
    (folder / "notes").write_text("mine")
    (folder / INSIDE / "said-1").write_text("of a rank that is not known")
    board.remove()
    assert listed(folder) == {
        "notes": b"mine",
        f"{INSIDE}/said-1": b"of a rank that is not known",
        f"{INSIDE}/made-by-a-rank": b"",
    }


def test_an_empty_folder_of_the_user_stays_when_ranks_have_met(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir(mode=0o755)
    for _ in range(2):
        all_meet(f"file://{folder}", tmp_path)
        assert list(folder.iterdir()) == []


def test_links_and_files_are_no_folders_to_meet_in(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    for name, aim in (("link", target), ("dangling", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(aim)
        with pytest.raises(BootstrapError, match="which is a symbolic link; choose"):
            Folder(tmp_path / name)
        assert (tmp_path / name).is_symlink()
    assert list(target.iterdir()) == []
    (target / INSIDE).symlink_to(tmp_path)
    with pytest.raises(BootstrapError, match="which is a symbolic link; choose"):
        Folder(target)
    named_alike = tmp_path / INSIDE
    named_alike.mkdir()
    (named_alike / "thesis.tex").touch()
    with pytest.raises(BootstrapError, match="holds other files"):
        Folder(named_alike)
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(BootstrapError, match="which is a file; choose"):
        Folder(file)
    assert file.read_text() == "mine"


def test_what_a_crashed_job_has_left_is_refused(tmp_path):
    place = tmp_path / "job"
    crashed = Folder(place)
    crashed.set("said/0", b"old")
    with pytest.raises(BootstrapError, match="runs or has crashed"):
        collalgo.init(f"file://{place}", rank=0, size=2, join_timeout=0.2)
    crashed.set("first", b"old")  # so that all had come
    before = listed(place)
    with pytest.raises(BootstrapError, match="another job has met in"):
        collalgo.init(f"file://{place}", rank=1, size=2, join_timeout=60)
    assert listed(place) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(BootstrapError, match="of user 12345 with mode 755"):
        Folder(folder)
    assert list(folder.iterdir()) == []


class Keys(dict):
    """The verbs of etcd that a board uses, on a dict."""

    def compare_set(self, key, _expected, desired):
        return self.setdefault(key, desired)

    def get(self, key, _timeout):
        return self[key]

    def delete(self, key):
        return self.pop(key, None) is not None


def test_keys_of_others_below_a_prefix_of_etcd_stay():
    keys = Keys(settings=b"of another program")
    foreign_stores = [EtcdPrefix(keys, "etcd://a/shared") for _ in range(3)]
    for rank, board in enumerate(foreign_stores):
        board.set(f"said/{rank}", b"x")
    for rank in range(2):
        foreign_stores[0].get(f"said/{rank}", 1)
    foreign_stores[2].take_back()
    foreign_stores[0].remove()
    assert keys == {"settings": b"of another program"}


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
