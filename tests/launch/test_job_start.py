"""Nodes of an elastic job run the same command; a second job of its id is refused."""

import subprocess
import sys
from contextlib import closing
from errno import EACCES
from unittest.mock import Mock

import pytest

from collalgo._version import __version__
from collalgo.bootstrap.store import file, job_start, repeated
from collalgo.bootstrap.store.at_url import STORES, store_place
from collalgo.bootstrap.store.job_end import end_document
from collalgo.bootstrap.store.job_keys import CLOSED, COMMAND
from collalgo.bootstrap.store.job_start import check_start
from collalgo.bootstrap.store.protocol import ABSENT, StoreError
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.user_secret import user_secret
from collalgo.errors import RendezvousClosed, RendezvousError

SECRET = b"of this job"
TERMS = {"collalgo": __version__, "members": "1:4"}
TRAIN = ["/a/bin/python3.11", "/a/train.py", "--rate", "1"]


@pytest.fixture(params=["collalgo", "file"])
def place(request, tmp_path):
    """The place of a job, for a node."""
    if request.param == "file":
        yield lambda: store_place(f"file://{tmp_path}/shared", "j")
        return
    with closing(Server(SECRET, "127.0.0.1")) as server:
        yield lambda: store_place(f"127.0.0.1:{server.port}", "j", secret=SECRET)


def start(place, command=TRAIN, **terms):
    told = []
    check_start(place(), command, {**TERMS, **terms}, told.append)
    assert not told


def put(place, key, value):
    """Set a key of a job."""
    found = place()
    with closing(STORES[found.url.scheme](found, lambda _: None)) as store:
        store.compare_set(key, value, ABSENT)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_nodes_may_have_their_programs_in_other_folders(place, nodes):
    for node in range(nodes):
        start(place, [f"/n{node}/python3.{node}", f"/n{node}/train.py", *TRAIN[2:]])


@pytest.mark.parametrize(
    "command",
    [
        [*TRAIN[:3], "2"],
        TRAIN[:2],
        [*TRAIN, "--resume"],
        [TRAIN[0], "/a/other.py", *TRAIN[2:]],
        ["/a/train", *TRAIN[1:]],
    ],
)
def test_another_command_under_the_id_of_a_job_is_refused_with_both(place, command):
    start(place)
    with pytest.raises(RendezvousError) as caught:
        start(place, command)
    told = str(caught.value)
    assert "cannot join job j at " in told
    assert "but the job 'python train.py --rate 1'; start all nodes with" in told
    assert told.endswith("another job under another id")
    start(place)  # a further node of the first one


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (["--config=conf/a.yaml", "--data", "/mnt/a/"],
         ["--resume=ckpt/a.yaml", "--data", "/mnt/a/"]),
        (["--data", "/mnt/a/"], ["--data", "/mnt/b/"]),
        (["--lr=1/2"], ["--epochs=8/2"]),
        (["--lr=1/2"], ["--lr=8/2"]),
        (["--data=s3://a/train"], ["--data=s3://b/train"]),
        (["./a/x.yaml"], ["./b/x.yaml"]),
        (["a b"], ["a", "b"]),
        (["x" * 5000, "1"], ["x" * 5000, "2"]),
    ],
)  # fmt: skip
def test_commands_that_differ_in_an_option_or_a_folder_below_differ(
    place, words, others
):
    start(place, [*TRAIN[:2], *words])
    start(place, [*TRAIN[:2], *words])
    with pytest.raises(RendezvousError, match=r"but the job .python train"):
        start(place, [*TRAIN[:2], *others])


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/n{}/data/", "data"),
        ("--data=/n{}/data", "--data=data"),
        ("data.path=/n{}/data/", "data.path=data"),
    ],
)
def test_hosts_may_have_the_absolute_paths_of_options_elsewhere(place, word, shown):
    for node in range(3):
        start(place, [*TRAIN[:2], word.format(node)])
    with pytest.raises(RendezvousError, match=f"the job 'python train.py {shown}'"):
        start(place, TRAIN[:2])


def test_a_folder_without_permission_is_refused_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(job_start, "PATIENCE", 0.3)
    used = Mock(side_effect=PermissionError(EACCES, "Permission denied"))
    monkeypatch.setattr(file, "make_private", used)
    with pytest.raises(RendezvousError, match=r"node .* cannot be used: .*denied"):
        start(lambda: store_place(f"file://{tmp_path}/shared", "j"))
    used.assert_called_once()


def test_another_number_of_members_is_refused(place):
    start(place)
    with pytest.raises(RendezvousError, match="has members '2:4' but the job '1:4'"):
        start(place, members="2:4")


def test_the_id_of_a_job_that_has_ended_is_refused(place):
    start(place)
    put(place, CLOSED, end_document("it has ended normally"))
    with pytest.raises(RendezvousClosed, match=r"closed \(it has ended normally\)"):
        start(place)


@pytest.mark.parametrize("document", [b"\xff", b"[", b"[]", b"{}", b'{"command": 1}'])
def test_a_malformed_command_in_the_store_hinders_no_node(place, document):
    put(place, COMMAND, document)
    start(place)


def test_a_store_that_is_not_reached_is_named(monkeypatch, reserved_port):
    monkeypatch.setattr(job_start, "PATIENCE", 0.3)
    monkeypatch.setattr(job_start, "SILENT", 0.1)
    where, told = f"etcd://127.0.0.1:{reserved_port}", []
    place = store_place(where, "j", "n7")
    words = rf"node n7 .*of job j at {where} has not answered .* 0\.3 s: .*refused"
    with pytest.raises(RendezvousError, match=words):
        check_start(place, TRAIN, TERMS, told.append)
    assert len(told) == 1
    assert f"waiting for the store of job j at {where}: " in told[0]


def test_a_store_that_fails_once_it_is_reached_is_asked_again(place, monkeypatch):
    """As an etcd of which a member is left for another one."""
    found = place()
    right, failures = STORES[found.url.scheme], [StoreError("it is slow")] * 2

    def connect(*which):
        store = right(*which)
        if failures:
            monkeypatch.setattr(store, "compare_set", Mock(side_effect=failures.pop()))
        return store

    monkeypatch.setitem(STORES, found.url.scheme, connect)
    monkeypatch.setattr(repeated, "PAUSE", 0.0)
    start(place)
    assert not failures
    with pytest.raises(RendezvousError, match="but the job"):
        start(place, TRAIN[:2])


@pytest.mark.parametrize("where", ["static://a,b", "of_a_package://x"])
def test_a_rendezvous_without_our_store_is_not_asked(where):
    start(lambda: store_place(where, "j"))


def test_a_node_of_a_second_job_ends_before_its_ranks_start(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import pathlib; pathlib.Path('started').touch()")
    with closing(Server(user_secret(), "127.0.0.1")) as server:
        where = f"127.0.0.1:{server.port}"
        start(lambda: store_place(where, "job"), ["python", "train.py", "1"])
        line = f"--elastic --nodes 1:4 --rendezvous {where} train.py 2"
        done = subprocess.run(
            [sys.executable, "-m", "collalgo", "run", *line.split()],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "'python train.py 2' but the job 'python train.py 1'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "started").exists()
