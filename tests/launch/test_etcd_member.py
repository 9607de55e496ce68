"""Nodes hold the store of their job together, and lose any one of them."""

import os
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest

from collalgo.bootstrap.store.replicated import ReplicatedStore
from collalgo.errors import BootstrapError
from collalgo.launch import etcd_cluster, etcd_member
from tests.support.clusters import skip_without_etcd
from tests.support.ports import adjacent_ports
from tests.support.store_clients import until

pytestmark = pytest.mark.deadline

pytest.importorskip("cryptography", reason="certificates need cryptography")

TRAIN = """
import sys
from pathlib import Path

import numpy as np

from collalgo import elastic

state = elastic.State(step=0)

@elastic.run
def train(comm, state):
    print("members", comm.size, flush=True)
    while not comm.allreduce(np.array([Path(sys.argv[1]).exists()]), op="max")[0]:
        state.step += 1
        state.commit()

train(state)
"""


@pytest.fixture
def servers():
    """The servers of a job of three nodes on this host, in pairs of adjacent ports."""
    first = adjacent_ports(6)
    return [("127.0.0.1", first + 2 * number) for number in range(3)]


@pytest.fixture
def held():
    with ExitStack() as held:
        yield held


def told(node, size):
    """Wait until a node is a member among some."""
    until(lambda: node.stdout.readline() == f"[0] members {size}\n")


@pytest.fixture
def start(tmp_path, servers, held):
    """Starts a node of a job."""
    skip_without_etcd()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "tmp").mkdir()
    where = "replicated://" + ",".join(f"{host}:{port}" for host, port in servers)
    line = f"--elastic --nodes 2:3 --rendezvous {where} train.py stop"
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}

    def start():
        node = subprocess.Popen(
            [sys.executable, "-m", "collalgo", "run", *line.split()],
            stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment,
        )  # fmt: skip
        held.callback(node.stdout.close)
        held.callback(node.wait)
        held.callback(node.terminate)
        return node

    return start


def test_a_job_goes_on_without_any_of_the_nodes_that_hold_its_store(tmp_path, start):
    nodes = [start() for _ in range(3)]
    for node in nodes:
        told(node, 3)
    nodes.pop(0).kill()
    for node in nodes:
        told(node, 2)
    nodes.append(start())
    for node in nodes:
        told(node, 3)
    (tmp_path / "stop").touch()
    assert [node.wait(30) for node in nodes] == [0, 0, 0]
    until(lambda: not list((tmp_path / "tmp").iterdir()))


def test_a_node_without_etcd_is_told_what_to_install(monkeypatch, servers):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(etcd_member, "find_spec", lambda _: None)
    with pytest.raises(BootstrapError, match="apt-get install etcd-server, or pip"):
        etcd_member.EtcdMember(ReplicatedStore(tuple(servers), "job", b"secret"))


def test_a_node_that_the_url_does_not_name_has_no_member():
    store = ReplicatedStore((("192.0.2.1", 2379),), "job", b"secret")
    member = etcd_member.EtcdMember(store)
    assert not member.is_running
    member.close()


def test_a_member_that_ends_by_itself_is_reported_and_started_again(
    tmp_path, monkeypatch, servers, capfd
):
    program = tmp_path / "etcd"
    program.write_text(f"""#!/bin/sh
cd {tmp_path}
[ -e once ] && {{ touch twice; exec sleep 60; }}
touch once; echo the disk is full; exit 7
""")
    program.chmod(0o700)
    monkeypatch.setattr(etcd_member, "etcd_program", lambda: str(program))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    member = etcd_member.EtcdMember(ReplicatedStore(tuple(servers), "job", b"secret"))
    until((tmp_path / "twice").exists)
    member.close()
    told = capfd.readouterr().err.splitlines()
    assert told == [
        "collalgo run: etcd of this node ended with exit code 7; it is started again "
        "in 1 s:",
        "the disk is full",
    ]
    assert not list(tmp_path.glob("collalgo-etcd-*"))


def test_jobs_of_one_name_do_not_take_each_others_members(
    tmp_path, monkeypatch, servers
):
    """They differ in their secrets; a second launcher of one job has no member."""
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(etcd_member, "etcd_program", lambda: str(program))
    monkeypatch.setattr(etcd_member, "has_begun", lambda *_: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ExitStack() as held:
        members = [
            held.enter_context(
                closing(
                    etcd_member.EtcdMember(
                        ReplicatedStore((servers[0],), "job", secret)
                    )
                )
            )
            for secret in (b"one", b"one", b"other")
        ]
        assert [member.is_running for member in members] == [True, False, True]


def test_a_member_that_answers_late_belongs_to_a_cluster(monkeypatch):
    indices = {"a": iter([None, None, 5]), "b": iter([0])}
    monkeypatch.setattr(
        etcd_cluster, "_index", lambda server, _context: next(indices[server[0]])
    )
    assert etcd_cluster.has_begun([("a", 1), ("b", 1)], None)


def test_members_that_wait_for_each_other_are_not_a_cluster(monkeypatch):
    indices = {"a": 3, "b": 0}
    monkeypatch.setattr(
        etcd_cluster, "_index", lambda server, _context: indices[server[0]]
    )
    assert not etcd_cluster.has_begun([("a", 1), ("b", 1)], None)
