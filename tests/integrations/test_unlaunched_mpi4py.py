"""Programs of mpi4py that ``collalgo run`` starts without ``--as-mpi4py``."""

import subprocess
import sys

import pytest

from collalgo.integrations.as_mpi4py.unlaunched import advice


def run(*words, cwd):
    """The end of a job of ``collalgo run``."""
    return subprocess.run(
        [sys.executable, "-m", "collalgo", "run", *words],
        cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


PROGRAM = "from mpi4py import MPI\nprint('of', MPI.COMM_WORLD.Get_size())\n"

#: The options of the only node of an elastic job.
NODE = ["--elastic", "--nodes", "1", "--rendezvous", "file://{folder}/job"]


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (["-n", "2", "script.py"], 1),
        (["-n", "2", sys.executable, "-u", "script.py"], 1),
        (["-n", "2", "-m", "script"], 1),
        (["-n", "1", "script.py"], 0),
        (["-n", "2", "--as-mpi4py", "script.py"], 0),
        ([*NODE, "--per-node", "2", "script.py"], 1),
        ([*NODE, "script.py"], 0),
    ],
)
def test_ranks_that_are_worlds_of_one_are_said_once(tmp_path, words, times):
    (tmp_path / "script.py").write_text(PROGRAM)
    done = run(*(word.format(folder=tmp_path) for word in words), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each is a world of one; add --as-mpi4py") == times
    sizes = {line.split()[-1] for line in done.stdout.splitlines()}
    assert sizes == {"2" if "--as-mpi4py" in words else "1"}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import mpi4py.MPI", True),
        ("def main():\n    from mpi4py import MPI", True),
        ("import numpy, mpi4py.MPI as MPI", True),
        ("import mpi4py, collalgo", False),
        ("import mpi4py\nfrom collalgo import elastic", False),
        ("from .mpi4py import MPI", False),
        ('"""A program.\n\nfrom mpi4py it takes nothing."""\nimport numpy', False),
        ("import mpi4py\nthis is no Python", False),
        ("# from mpi4py import MPI\nimport numpy", False),
        ("import mpi4python", False),
    ],
)
def test_the_imports_of_a_program_decide(tmp_path, monkeypatch, program, said):
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__main__.py").write_text(program)
    assert bool(advice(["python", "-m", "package"], 2)) is said
    assert bool(advice(["python", "package/__main__.py", "other.py"], 2)) is said
    assert advice(["python", "package/missing.py"], 2) is None
    assert advice(["./a.out"], 2) is None


def test_a_world_of_one_of_mpi_is_refused_in_a_job_of_several_ranks(tmp_path):
    (tmp_path / "script.py").write_text(
        "from mpi4py import MPI\nimport collalgo, numpy as np\n"
        "assert collalgo.allreduce(np.ones(1), MPI.COMM_SELF) == 1\n"
        "collalgo.allreduce(np.ones(1), MPI.COMM_WORLD)\n"
    )
    done = run("-n", "2", "script.py", cwd=tmp_path)
    assert done.returncode != 0
    assert "MPI.COMM_WORLD has 1 rank, but collalgo run has started 2" in done.stderr
    assert run("-n", "1", "script.py", cwd=tmp_path).returncode == 0
