"""The engine under mpiexec is the one asked for; without mpi4py ranks meet by PMI."""

import os
import re
import secrets
import subprocess
import sys
from itertools import product

import pytest

import collalgo
from collalgo import BootstrapError
from tests.support.leisure import at_leisure
from tests.support.mpiexec import mpiexec

pytestmark = pytest.mark.mpi


WITHOUT = "import sys\nsys.modules['mpi4py'] = None\n"


WHO = """
import os, numpy as np, collalgo
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
if os.environ.get("PRETEND"):
    os.environ["COLLALGO_HOST"] = str(rank % 2)
comm = collalgo.init()
assert comm.rank == rank
assert comm.allreduce(np.array([rank]))[0] == sum(range(comm.size))
for nbytes in (32_769, 131_072, 131_073, 5 << 20):  # in packets, or carried in parts
    found = comm.allgather(np.full(nbytes, rank, np.uint8))
    assert (found == np.arange(comm.size)[:, np.newaxis]).all()
print(f"{len(set(comm.hosts))} by {comm.engine};", flush=True)
"""


def meets(name, script, tmp_path, options=(), **environment):
    path = tmp_path / "script.py"
    path.write_text(script)
    more = {"UCX_TLS": "tcp,self", **environment}
    return mpiexec(name, 3, path, options=options, **more)


#: The name of the engine in each MPI; test_mpi.py looks at MPI without a request.
ENGINES = [
    ("mpich", WHO, "", r"2 by MPI \(MPICH [\d.]+\);"),
    ("mpich", WHO, "mpi", r"2 by MPI \(MPICH [\d.]+\);"),
    ("mpich", WHO, "ucx", r"2 by UCX [\d.]+;"),
    ("mpich", WITHOUT + WHO, "", r"2 by UCX [\d.]+;"),
    ("openmpi", WHO, "", r"2 by MPI \(Open MPI [\d.]+\);"),
    ("openmpi", WHO, "ucx", r"2 by UCX [\d.]+;"),
    ("intelmpi", WHO, "", r"2 by MPI \(Intel MPI [\d.]+\);"),
    ("mpich", "from mpi4py import MPI\n" + WHO, "ucx", r"2 by UCX [\d.]+;"),
]


@pytest.mark.parametrize(
    ("name", "script", "asked", "found"),
    at_leisure(ENGINES, {ENGINES[3], ENGINES[5], ENGINES[6], ENGINES[7]}),
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
    ("name", "asked"),
    at_leisure(
        [("mpich", "mpi"), ("openmpi", ""), ("openmpi", "ucx")],
        {("mpich", "mpi"), ("openmpi", "")},
    ),
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


@pytest.mark.parametrize(
    ("kind", "missing"),
    at_leisure(
        product(["mpi", "pmi", "plugin"], [(0,), (1,), (0, 1, 2)]),
        {("plugin", (1,)), ("pmi", (1,))},
    ),
)
def test_a_rank_that_misses_the_requested_engine_is_named_at_once(
    kind, missing, tmp_path
):
    script = WITHOUT if kind == "pmi" else ""
    script += MISSES.format(missing=missing, kind=kind)
    done = meets("mpich", script, tmp_path, COLLALGO_ENGINE="ucx")
    assert done.returncode != 0
    named = set(map(int, re.findall(r"rank (\d) cannot use UCX", done.stderr)))
    assert named <= set(missing)
    assert named
    if kind != "plugin":
        assert "pip install collalgo[ucx]" in done.stderr


MISSES = """
import os
import collalgo
import collalgo.bootstrap.connect as connect
import collalgo.engine.transport.ucx as ucx
rank = int(os.environ["PMI_RANK"])
if rank in {missing}:
    ucx._libraries = lambda _: ["/none/libucp.so.0"]
    if {kind!r} == "plugin":
        def added_engine(_):
            raise collalgo.PluginError(f"rank {{rank}} cannot use UCX of a plug-in")
        connect.added_engine = added_engine
collalgo.init()
"""


def test_a_world_that_is_not_the_launchers_is_refused():
    for out, error in by_srun("2"):
        assert not out
        assert "srun has started 3 ranks, but MPICH" in error
        assert "finds 1; use" in error


#: The root makes no call after its last broadcast until the others have received it.
SILENT = """
import os, pathlib, sys, time, numpy as np, collalgo
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
os.environ["COLLALGO_HOST"] = str(rank)
comm, folder = collalgo.init(), pathlib.Path(sys.argv[0]).parent
for number in range(40):
    found = comm.broadcast(np.full(3, number if rank == 0 else -1), algorithm="linear")
    assert (found == number).all()
    (folder / f"{rank} {number}").touch()
    until = time.monotonic() + 60
    while number > 10 and len([*folder.glob(f"? {number}")]) < comm.size:
        assert time.monotonic() < until, f"broadcast {number} does not arrive"
        time.sleep(0.001)
"""


@pytest.mark.parametrize(
    ("name", "asked"),
    at_leisure(
        [("mpich", "ucx"), ("mpich", "mpi"), ("openmpi", "mpi")], {("mpich", "ucx")}
    ),
)
def test_a_message_arrives_though_its_sender_makes_no_further_call(
    name, asked, tmp_path
):
    done = meets(name, SILENT, tmp_path, COLLALGO_ENGINE=asked)
    assert done.returncode == 0, done.stdout + done.stderr
