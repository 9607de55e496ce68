"""Under mpiexec, with a communicator of mpi4py: Open MPI and MPICH from PyPI.

Each MPI needs an environment of its own, which ``make test`` makes.
"""

import re
from itertools import product
from pathlib import Path

import pytest

from tests.support.leisure import at_leisure
from tests.support.mpiexec import ENVIRONMENTS, mpiexec

pytestmark = pytest.mark.mpi


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
assert world.engine.startswith(f"MPI ({sys.argv[2]} "), world.engine
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


TITLES = {"mpich": "MPICH", "openmpi": "Open MPI", "intelmpi": "Intel MPI"}


@pytest.mark.parametrize(
    ("name", "level"),
    at_leisure(
        product(ENVIRONMENTS, ["single", "funneled", "serialized", "multiple"]),
        {("mpich", "funneled"), ("openmpi", "serialized"), ("intelmpi", "funneled")},
    ),
)
def test_calls_observe_the_thread_level_of_mpi(name, level, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(LEVELS)
    done = mpiexec(name, 3, path, level, TITLES[name])
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
