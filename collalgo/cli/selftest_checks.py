"""The checks of ``collalgo selftest``: each tries a part of the installation.

A check returns a description of itself. It raises :class:`NotHere` if this machine
lacks a requirement, and any other error if the part does not work.
"""

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import numpy as np

from collalgo._kernels.engine.reduction.reduce import VARIANTS
from collalgo.algorithms.catalogue import ALGORITHMS
from collalgo.algorithms.verify import verify
from collalgo.base.environment import ENGINE, HOST, RSH
from collalgo.comm.communicator import Communicator
from collalgo.engine.reduction import reduction
from collalgo.errors import CollalgoError, PeerFailed
from collalgo.launch.run_function import spawn
from collalgo.launch.threads import threads
from collalgo.selection.choice import select
from collalgo.topology.model import Topology

#: The ranks of the calls, and of the proofs: neither is a power of two.
RANKS, PROVED = 3, 5

#: Seconds after which a call without the other ranks fails.
TIMEOUT = 10.0

#: Two hosts with a rank each, of which this machine is both.
HOSTS = "a:1,b:1"

#: Stands for ssh: runs the command of a host on this one.
SHELL = "sh -c 'shift; exec sh -c \"$*\"' rsh"

#: A rank of two hosts; mpiexec gives the rank in one of two variables.
RANK = rf"""
import os
rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK")
if rank:
    os.environ["{HOST.name}"] = "host " + rank
import collalgo
from collalgo.cli.selftest_checks import every_collective
with collalgo.init(timeout=10, join_timeout=20) as comm:
    every_collective(comm)
    if comm.rank == 0:
        print("\nengine:", comm.engine)
"""


class NotHere(Exception):
    """The machine lacks a requirement of a check; the message names it."""


def reductions() -> str:
    """Every instruction set of the kernels, against NumPy."""
    tried = [each for each in VARIANTS if _variant_works(each)]
    if not tried:
        raise NotHere("no instruction set of the kernels")
    return ", ".join(tried)


def _variant_works(variant: str) -> bool:
    """Whether this machine has an instruction set; raises if it gives wrong results."""
    try:
        reduction(np.dtype(np.int8), "sum", variant)
    except ValueError:
        return False
    rng = np.random.default_rng(1)
    for dtype in (np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64):
        inputs = [rng.integers(1, 4, 1003).astype(dtype) for _ in range(RANKS)]
        for op, ufunc in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum)):
            out = np.empty_like(inputs[0])
            reduction(out.dtype, op, variant)(out, inputs)
            np.testing.assert_array_equal(out, ufunc.reduce(inputs, dtype=dtype))
    return True


def proofs() -> str:
    """The proof of every algorithm that runs on a number of ranks."""
    rows = [row for row in ALGORITHMS if row.obstacle(PROVED) is None]
    for row in rows:
        verify(row.schedule, size=PROVED, collective=row.collective)
    return f"{len(rows)} algorithms on {PROVED} ranks"


def every_collective(comm: Communicator) -> None:
    """Call each collective once; AssertionError if a result is wrong."""
    size, rank = comm.size, comm.rank
    mine, total = np.arange(size * 100.0) + rank, size * (size - 1) // 2
    summed = size * np.arange(size * 100.0) + total
    same, blocks = np.testing.assert_array_equal, slice(rank * 100, rank * 100 + 100)
    same(comm.allreduce(mine.copy()), summed)
    same(comm.reduce_scatter(mine), summed[blocks])
    same(comm.allgather(mine)[:, 0], np.arange(size))
    same(comm.broadcast(mine.copy(), root=size - 1), np.arange(size * 100.0) + size - 1)
    same(comm.alltoall(mine.reshape(size, 100))[:, 0], rank * 100 + np.arange(size))
    same(comm.scan(np.ones(9)), np.full(9, rank + 1))
    for result, expected in (
        (comm.reduce(mine.copy()), summed),
        (comm.gather(mine[:1]), np.arange(size)[:, None]),
    ):
        if rank == 0:
            same(result, expected)
    comm.barrier()


def calls_of_threads() -> str:
    """Every collective among threads."""
    threads(every_collective, RANKS, timeout=TIMEOUT)
    return f"{RANKS} ranks"


def calls_of_processes() -> str:
    """Every collective among processes of this host."""
    spawn(every_collective, RANKS, timeout=TIMEOUT)
    return f"{RANKS} ranks"


def ucx() -> str:
    """Every collective between two hosts, which are both this machine, over UCX."""
    from collalgo.engine.transport.ucx import library

    try:
        library()
    except OSError as error:
        raise NotHere(f"{error}; pip install collalgo[ucx]") from None
    here = {RSH.name: SHELL, ENGINE.name: "ucx", "UCX_TLS": "tcp,self"}
    launcher = [sys.executable, "-m", "collalgo", "run", "-H", HOSTS]
    return _engine([*launcher, sys.executable, "-c", RANK], here, "UCX")


def mpi() -> str:
    """Every collective between two hosts, which are both this machine, over MPI."""
    beside = Path(sysconfig.get_path("scripts")) / "mpiexec"
    mpiexec = str(beside) if beside.exists() else which("mpiexec")
    try:
        import_mpi = [sys.executable, "-c", "from mpi4py import MPI"]
        subprocess.run(import_mpi, check=True, capture_output=True, timeout=30)
    except subprocess.SubprocessError:
        raise NotHere("no mpi4py with an MPI; pip install collalgo[mpi]") from None
    if mpiexec is None:
        raise NotHere("no mpiexec")
    command = [mpiexec, "-n", "2", sys.executable, "-c", RANK]
    return _engine(command, {ENGINE.name: "mpi"}, "MPI")


def _engine(command: list[str], variables: dict[str, str], expected: str) -> str:
    """The engine that a job of two hosts had, if it is of the expected kind."""
    done = subprocess.run(
        command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise CollalgoError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    found = done.stdout.rpartition("engine: ")[2].partition("\n")[0]
    if not found.startswith(expected):
        raise CollalgoError(f"the engine is {found!r}, and not {expected}")
    return found


def topology() -> str:
    """The topology of this machine, and a choice on it that is not below its bound."""
    found = Topology.detect()
    ranks = len(found.devices("gpu")) or len(found.devices("core"))
    if ranks < 2:
        raise NotHere(f"{ranks} place for a rank")
    chosen = select("allreduce", 1 << 20, topology=found)
    if chosen.seconds < (chosen.bound_seconds or 0.0):
        raise CollalgoError(
            f"the price {chosen.seconds} s is below the bound {chosen.bound_seconds} s"
        )
    return f"{ranks} places for ranks"


def killed_rank() -> str:
    """All other ranks are notified that one was killed."""
    with TemporaryDirectory() as folder:
        try:
            spawn(partial(_outlive, Path(folder)), RANKS, timeout=TIMEOUT)
        except CollalgoError as error:
            if "SIGKILL" not in str(error):
                raise
        told = len(list(Path(folder).iterdir()))
    if told != RANKS - 1:
        raise CollalgoError(f"a rank was killed; {told} of {RANKS - 1} others noticed")
    return f"1 of {RANKS} ranks, which {told} others noticed"


def _outlive(folder: Path, comm: Communicator) -> None:
    """Make a file if the death of another rank is reported; rank 1 dies."""
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.allreduce(np.ones(9))
    except PeerFailed:
        (folder / str(comm.rank)).touch()
        raise


#: The checks, in order.
CHECKS: dict[str, Callable[[], str]] = {
    "reductions": reductions,
    "proofs": proofs,
    "calls of threads": calls_of_threads,
    "calls of processes": calls_of_processes,
    "UCX between hosts": ucx,
    "MPI between hosts": mpi,
    "topology": topology,
    "a killed rank": killed_rank,
}
