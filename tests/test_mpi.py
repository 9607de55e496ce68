"""Under mpiexec, with a communicator of mpi4py: Open MPI and MPICH from PyPI.

Each MPI needs an environment of its own, which ``make test`` makes.
"""

import pytest

from tests.mpiexec import ENVIRONMENTS, mpiexec

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
assert size == 1 or collalgo.world.resolve(world) is comm

part = world.Split(rank % 2, -rank)
total = collalgo.allreduce(np.array([rank]), part)[0]
assert total == sum(range(rank % 2, size, 2)), total
kept = collalgo.world.resolve(part)
part.Free()
assert kept.closed

assert collalgo.allreduce(np.array([1]), MPI.COMM_SELF)[0] == 1
print(f"right {rank};", flush=True)
"""


def run(name, size, script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(script)
    return mpiexec(name, size, path)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_communicator_comes_up_under_mpiexec(name, size, tmp_path):
    done = run(name, size, SCRIPT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"right {rank};" in done.stdout for rank in range(size))


def test_without_mpi4py_the_error_says_what_to_install(tmp_path):
    script = (
        "import sys\nsys.modules['mpi4py'] = None\nimport collalgo\ncollalgo.init()\n"
    )
    done = run("mpich", 2, script, tmp_path)
    assert done.returncode != 0
    assert "install it with: pip install collalgo[mpi]" in done.stderr
