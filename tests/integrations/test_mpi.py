"""Under mpiexec, with a communicator of mpi4py: Open MPI and MPICH from PyPI.

Each MPI needs an environment of its own, which ``make test`` makes.
"""

import os
import re
import secrets
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import collalgo
from collalgo import BootstrapError
from tests.conftest import at_leisure
from tests.support.mpiexec import ENVIRONMENTS, mpiexec

pytestmark = [pytest.mark.mpi, pytest.mark.parallel]

SCRIPT = """
import numpy as np
import collalgo
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

x = np.full(1000, rank, np.float32)
assert collalgo.allreduce(x, world, MPI.MAX) is x
assert (x == size - 1).all(), x

comm = collalgo.init()
assert (comm.rank, comm.size) == (rank, size)
assert collalgo.broadcast(np.full(3, rank), root=size - 1)[0] == size - 1
assert size == 1 or collalgo.comm.current.resolve(world) is comm

part = world.Split(rank % 2, -rank)
total = collalgo.allreduce(np.array([rank]), part)[0]
assert total == sum(range(rank % 2, size, 2)), total
kept = collalgo.comm.current.resolve(part)
part.Free()
assert kept.closed

assert collalgo.allreduce(np.array([1]), MPI.COMM_SELF)[0] == 1


def refuses(comm, kind, *words):
    for call in (collalgo.barrier, lambda c: collalgo.allreduce_async(np.ones(1), c)):
        try:
            call(comm)
        except kind as error:
            assert all(word in str(error) for word in words), error
        else:
            raise AssertionError(comm)


refuses(part, collalgo.CommunicatorClosed, "COMM_NULL", "freed")
refuses(MPI.COMM_NULL, collalgo.CommunicatorClosed, "COMM_NULL", "freed")
copy = world.Dup()
collalgo.barrier(copy)
copy.Free()
refuses(copy, collalgo.CommunicatorClosed, "COMM_NULL", "freed")
if size > 1:
    half = world.Split(rank % 2, rank)
    bridge = half.Create_intercomm(0, world, 1 - rank % 2)
    refuses(bridge, TypeError, "intercommunicator", "Merge()")
    merged = bridge.Merge()
    assert collalgo.allreduce(np.array([1]), merged)[0] == size
    bridge.Free()
    refuses(bridge, collalgo.CommunicatorClosed, "COMM_NULL", "freed")
print(f"right {rank};", flush=True)
"""


def run(name, size, script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(script)
    return mpiexec(name, size, path)


@pytest.mark.parametrize(
    ("name", "size"),
    at_leisure(
        product(ENVIRONMENTS, [1, 2, 4]),
        {("mpich", 1), ("mpich", 4), ("openmpi", 2), ("intelmpi", 2)},
    ),
)
def test_a_communicator_comes_up_under_mpiexec(name, size, tmp_path):
    done = run(name, size, SCRIPT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"right {rank};" in done.stdout for rank in range(size))


WITHOUT = "import sys\nsys.modules['mpi4py'] = None\n"
WHO = """
import os, numpy as np, collalgo
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
if os.environ.get("PRETEND"):
    os.environ["COLLALGO_HOST"] = str(rank % 2)
comm = collalgo.init()
assert comm.rank == rank
assert comm.allreduce(np.array([rank]))[0] == sum(range(comm.size))
print(f"{len(set(comm.hosts))} by {comm.engine};", flush=True)
"""


def meets(name, script, tmp_path, options=(), **environment):
    path = tmp_path / "script.py"
    path.write_text(script)
    more = {"UCX_TLS": "tcp,self", **environment}
    return mpiexec(name, 3, path, options=options, **more)


@pytest.mark.parametrize(
    ("name", "script", "asked", "found"),
    [
        ("mpich", WHO, "", r"2 by MPI \(MPICH [\d.]+\);"),
        ("mpich", WHO, "mpi", r"2 by MPI \(MPICH [\d.]+\);"),
        ("mpich", WHO, "ucx", r"2 by UCX [\d.]+;"),
        ("mpich", WITHOUT + WHO, "", r"2 by UCX [\d.]+;"),
        ("openmpi", WHO, "", r"2 by MPI \(Open MPI [\d.]+\);"),
        ("openmpi", WHO, "ucx", r"2 by UCX [\d.]+;"),
        ("intelmpi", WHO, "", r"2 by MPI \(Intel MPI [\d.]+\);"),
    ],
)
def test_the_engine_is_the_one_asked_for_and_is_named(
    name, script, asked, found, tmp_path
):
    more = {"PRETEND": "1", "COLLALGO_ENGINE": asked}
    done = meets(name, script, tmp_path, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(found, done.stdout)) == 3, done.stdout


def test_without_mpi4py_ranks_meet_by_pmi(tmp_path):
    for options in ((), ("-launcher", "fork", "-hosts", "a:2,b:1")):
        done = meets("mpich", WITHOUT + WHO, tmp_path, options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("1 by None;") == 3


@pytest.mark.parametrize(
    ("name", "asked"), [("mpich", "mpi"), ("openmpi", ""), ("openmpi", "ucx")]
)
def test_without_mpi4py_the_error_says_what_to_install(name, asked, tmp_path):
    done = meets(name, WITHOUT + WHO, tmp_path, COLLALGO_ENGINE=asked)
    assert done.returncode != 0
    assert "install it with: pip install collalgo[mpi]" in done.stderr


def test_an_engine_that_there_is_not_or_cannot_be_is_refused(tmp_path):
    script = "import collalgo\ncollalgo.init(engine='nccl')\n"
    done = meets("mpich", script, tmp_path)
    assert "there is no engine 'nccl'; choose one of mpi, ucx" in done.stderr
    collalgo.init().close()  # of an earlier test
    with pytest.raises(BootstrapError, match="mpi is requested, but no mpiexec"):
        place = f"file://{tmp_path}/job"
        collalgo.init(place, rank=0, size=2, engine="mpi")
    assert not (tmp_path / "job").exists()


STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": secrets.token_hex(4),
        "SLURM_STEP_NUM_TASKS": "3"}  # fmt: skip


def by_srun(nodes):
    """Run ranks as srun would that has no PMI: the outputs of all."""
    script = "import numpy as np, collalgo\nprint(collalgo.allreduce(np.ones(1)))"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, **STEP, "SLURM_STEP_NUM_NODES": nodes,
                 "SLURM_PROCID": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    return [each.communicate(timeout=120) for each in started]


def test_ranks_of_srun_on_one_node_need_no_mpi():
    assert [out for out, _ in by_srun("1")] == ["[3.]\n"] * 3


LEVELS = """
import os, sys
import mpi4py
mpi4py.rc.thread_level = sys.argv[1]
from mpi4py import MPI
import numpy as np, collalgo

levels = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled",
          MPI.THREAD_SERIALIZED: "serialized", MPI.THREAD_MULTIPLE: "multiple"}
assert levels[MPI.Query_thread()] == sys.argv[1]
rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
os.environ["COLLALGO_HOST"] = str(rank % 2)
world = collalgo.init(timeout=60)
comms = [world.dup() for _ in range(6)]
for comm in comms:
    assert comm.allreduce(np.array([rank]))[0] == sum(range(size))
    assert comm.broadcast(np.array([rank]), root=1)[0] == 1
if rank < 2:
    world.send(np.full(3, rank), 1 - rank)
    assert (world.recv(np.zeros(3, int), 1 - rank) == 1 - rank).all()
refused = 0
for turn in range(30):
    arrays = [np.full(20000, rank + turn) for _ in comms]
    works = []
    for comm, array in zip(comms, arrays):
        try:
            works.append(comm.allreduce_async(array))
        except collalgo.CollalgoError as error:
            assert "thread_level = 'serialized'" in str(error), error
            refused += 1
    other = collalgo.allreduce(np.full(20000, 1), MPI.COMM_WORLD)
    assert (other == size).all()
    for work, array in zip(works, arrays):
        assert (work.wait() == sum(range(size)) + size * turn).all()
try:
    message = world.isend(np.full(3, rank), (rank + 1) % size)
    assert (world.recv(np.zeros(3, int), (rank - 1) % size) == (rank - 1) % size).all()
    message.wait()
except collalgo.CollalgoError as error:
    assert "thread_level = 'serialized'" in str(error), error
    refused += 1
world.barrier()
print(f"{refused} refused;", flush=True)
"""


@pytest.mark.parametrize(
    "level",
    at_leisure(
        ["single", "funneled", "serialized", "multiple"], {"funneled", "serialized"}
    ),
)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_calls_observe_the_thread_level_of_mpi(name, level, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(LEVELS)
    done = mpiexec(name, 3, path, level)
    assert done.returncode == 0, done.stdout + done.stderr
    refused = 181 if level in {"single", "funneled"} else 0
    assert done.stdout.count(f"{refused} refused;") == 3, done.stdout


KILLED = """
import os, signal
import numpy as np, collalgo
comm = collalgo.init()
comm.allreduce(np.ones(3))
if comm.rank == 1:
    print(*(line.split()[5] for line in open("/proc/self/maps") if "mpich_shm" in line))
    os.sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
comm.allreduce(np.ones(3))
"""


def test_a_killed_rank_leaves_no_memory_of_mpich(tmp_path):
    done = run("mpich", 3, KILLED, tmp_path)
    assert done.returncode != 0
    for path in re.findall("/dev/shm/mpich_shm_\\w+", done.stdout):
        assert not Path(path).exists()


@pytest.mark.parametrize(
    ("kind", "missing"),
    at_leisure(
        product(["mpi", "pmi"], [(0,), (1,), (0, 1, 2)]),
        {("mpi", (0,)), ("mpi", (0, 1, 2)), ("pmi", (1,))},
    ),
)
def test_a_rank_that_misses_the_requested_engine_is_named_at_once(
    kind, missing, tmp_path
):
    script = WITHOUT if kind == "pmi" else ""
    script += MISSES.format(missing=missing)
    done = meets("mpich", script, tmp_path, COLLALGO_ENGINE="ucx")
    assert done.returncode != 0
    named = set(map(int, re.findall(r"rank (\d) cannot use UCX", done.stderr)))
    assert named <= set(missing)
    assert named
    assert "pip install collalgo[ucx]" in done.stderr


MISSES = """
import os
import collalgo.engine.transport.ucx as ucx
if int(os.environ["PMI_RANK"]) in {missing}:
    ucx._libraries = lambda: ["/none/libucp.so.0"]
import collalgo
collalgo.init()
"""


def test_a_world_that_is_not_the_launchers_is_refused():
    for out, error in by_srun("2"):
        assert not out
        assert "srun has started 3 ranks, but MPICH" in error
        assert "finds 1; use" in error
