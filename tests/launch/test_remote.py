"""collalgo run on several hosts, which here are names of one machine, and UCX between.

Deadlines bound how long a failure may take to be noticed; they do not measure speed.
"""

import subprocess
import sys
from itertools import product

import pytest

import collalgo
from collalgo.bootstrap.connect import store_address
from collalgo.bootstrap.identity import Route, identity
from collalgo.engine.transport.waiting import cores
from collalgo.errors import BootstrapError
from tests.support.leisure import at_leisure
from tests.support.remote_jobs import all_do, check_failures, run


def test_a_rank_is_told_of_the_store():
    env = {"COLLALGO_STORE": "10.0.0.1,fe80::1:77", "COLLALGO_SECRET": "00ff"}
    assert store_address(env) == (["10.0.0.1", "fe80::1"], 77, b"\0\xff")
    env |= {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    assert identity(env).route is Route.STORE
    for name, wrong, reason in (
        ("COLLALGO_SECRET", "xyz", "must be hexadecimal digits"),
        ("COLLALGO_STORE", "nowhere", "must be HOST:PORT"),
    ):
        with pytest.raises(BootstrapError, match=rf"{name}=.*{reason}"):
            store_address(env | {name: wrong})


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    ("duty", "layout"),
    at_leisure(
        [*product(["everything"], ["2+2", "3+3", "4+4", "3+2+1"]),
         ("half_of_everything", "3+2+1"), ("third_quarter_of_everything", "3+2+1")],
        {("third_quarter_of_everything", "3+2+1")},
    ),
)  # fmt: skip
def test_every_algorithm_is_right_by_ucx(duty, layout):
    """The other quarters are quick under MPICH and Open MPI."""
    all_do(duty, layout)


@pytest.mark.usefixtures("rsh")
def test_groups_and_messages_are_as_by_mpi():
    assert (
        "told"
        not in all_do(
            "groups,messages,negotiated,swarm,early,long_blocks", "2+1"
        ).stdout
    )


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_failures_are_as_by_mpi():
    check_failures(all_do("failures", "2+1").stdout)


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_who_stays_can_make_groups_without_who_has_ended():
    all_do("shrinking", "3+1")


@pytest.mark.usefixtures("rsh")
def test_one_host_needs_no_engine(tmp_path):
    script = tmp_path / "one.py"
    script.write_text(
        "import collalgo, os\ncomm = collalgo.init()\nassert set(comm.hosts) == {0}\n"
        "comm.barrier()\nprint('local', os.environ['CROSS_SIZE'])\n"
    )
    done = run("a:3", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}] local 1" for r in range(3)]


@pytest.mark.usefixtures("rsh")
def test_a_send_that_the_other_host_never_meets_names_it(tmp_path):
    script = tmp_path / "alone.py"
    script.write_text(
        "import collalgo, numpy as np\ncomm = collalgo.init()\n"
        "try:\n"
        "    if comm.rank == 0: comm.send(np.ones(100000), 1, timeout=0.3)\n"
        "except collalgo.CollectiveTimeout as error: print(error)\n"
        "comm.barrier()\n"
    )
    done = run("a:1,b:1", script)
    assert done.returncode == 0, done.stderr
    assert "rank 0 waited 0.3 s for rank 1, which has neither sent" in done.stdout


@pytest.mark.usefixtures("rsh")
def test_the_ranks_of_a_host_and_of_one_local_rank_are_as_the_launcher_counts(tmp_path):
    script = tmp_path / "parts.py"
    script.write_text(
        "import collalgo, os, numpy as np\ncomm = collalgo.init()\nenv = os.environ\n"
        "for name, part in (('LOCAL', comm.local), ('CROSS', comm.cross)):\n"
        "    assert str(part.rank) == env[name + '_RANK']\n"
        "    assert str(part.size) == env[name + '_SIZE']\n"
        "    assert part.allreduce(np.ones(1))[0] == part.size\n"
        "print('right')\n"
    )
    done = run("a:2,b:1", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}] right" for r in range(3)]


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_other_libraries_are_told_where_rank_0_is_and_of_few_threads(tmp_path):
    script = tmp_path / "master.py"
    script.write_text(
        "import collalgo, os, socket\ncomm = collalgo.init()\nenv = os.environ\n"
        "where = env['MASTER_ADDR'], int(env['MASTER_PORT'])\n"
        "if comm.rank == 0:\n    server = socket.create_server(where)\n"
        "comm.barrier()\nsocket.create_connection(where).close()\n"
        "print(env['OMP_NUM_THREADS'])\n"
    )
    done = run("a:2,b:1", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"[{rank}] {max(1, cores() // local)}" for rank, local in enumerate([2, 2, 1])
    ]


@pytest.mark.usefixtures("rsh")
def test_no_message_is_kept_back_by_a_rank_that_waits_inside_its_host(monkeypatch):
    monkeypatch.setenv("UCX_TCP_SNDBUF", "4k")
    all_do("holding_back", "2+1")


@pytest.mark.usefixtures("rsh")
def test_a_forked_child_takes_no_message_of_its_parent():
    all_do("forking", "1+1")


EXPLICIT = """
import os, sys
import numpy as np, collalgo
rank = int(sys.argv[1])
os.environ["COLLALGO_HOST"] = str(rank // 2)
comm = collalgo.init(rank=rank, size=3, store="127.0.0.1:" + sys.argv[2], secret="s")
assert collalgo.init() is comm
assert comm.hosts == (0, 0, 1)
assert comm.allreduce(np.array([rank]))[0] == 3
print("right")
"""


def test_ranks_may_be_told_everything_by_init(tmp_path, monkeypatch, reserved_port):
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    script = tmp_path / "explicit.py"
    script.write_text(EXPLICIT)
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(reserved_port)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in (2, 1, 0)
    ]  # fmt: skip
    for rank in ranks:
        said, _ = rank.communicate(timeout=60)
        assert (rank.returncode, said) == (0, "right\n")


def test_init_needs_all_of_rank_size_and_secret(monkeypatch):
    collalgo.init().close()  # or it would be given again
    with pytest.raises(ValueError, match="needs rank and size too"):
        collalgo.init(store="127.0.0.1:1", rank=1)
    monkeypatch.delenv("COLLALGO_SECRET", raising=False)
    with pytest.raises(BootstrapError, match="no secret of the job; pass secret="):
        collalgo.init(store="127.0.0.1:1", rank=0, size=2)
