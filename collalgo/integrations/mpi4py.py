"""Communicators of mpi4py: their ranks meet over MPI.

Ranks of one host then use shared memory alone; between hosts MPI is the engine, unless
another is asked for.
"""

import os
from typing import Any

import numpy as np

from collalgo.bootstrap import pmi
from collalgo.bootstrap.connect import connect, same_engine
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.identity import Identity
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.comm.communicator import Communicator
from collalgo.engine.transport.engine import Engine, asked_for
from collalgo.engine.transport.mpi import Mpi
from collalgo.engine.transport.ucx import Ucx
from collalgo.errors import BootstrapError

_keyval: int | None = None


class OverMpi:
    """The processes of a communicator of mpi4py, which hear each other."""

    def __init__(self, comm: Any):
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self._comm = comm

    def allgather(self, text: str) -> list[str]:
        """What each process says, in the order of their ranks."""
        mine = np.frombuffer(text.encode(), np.uint8)
        lengths = np.empty(self.size, np.intc)
        self._comm.Allgather(np.array([len(mine)], np.intc), lengths)
        joined = np.empty(lengths.sum(), np.uint8)
        self._comm.Allgatherv(mine, [joined, lengths])
        ends = np.cumsum(lengths)[:-1]
        return [part.tobytes().decode() for part in np.split(joined, ends)]

    def broadcast(self, text: str) -> str:
        """What rank 0 says."""
        return self.allgather(text if self.rank == 0 else "")[0]


def world_communicator(arguments: JoinArguments) -> Communicator:
    """The world of a process that an mpiexec has started.

    Without mpi4py, or where UCX is asked for, the ranks meet by PMI if their launcher
    knows it; no MPI is started then.
    """
    me = arguments.launched
    assert me is not None
    by_pmi, asked = pmi.VARIABLE in os.environ, asked_for(arguments.engine)
    if not (by_pmi and asked == "ucx"):
        try:
            return communicator(_world_of(me), asked)
        except (ImportError, RuntimeError) as error:
            if asked == "mpi" or not by_pmi:
                raise BootstrapError(
                    f"this process was started by {me.launcher}, and to meet the other "
                    f"ranks it needs mpi4py ({error}); install it with: "
                    "pip install collalgo[mpi]"
                ) from None
    launcher = pmi.connection(os.environ, me.rank, me.size, arguments.timeout)
    return Communicator(connect(launcher, Ucx(), arguments.timeout))


def _world_of(me: Identity) -> Any:
    """The world of MPI, which must be that of the launcher.

    Raises
    ------
    BootstrapError
        If MPI does not know of the launcher: then every process is a world of its own.
    """
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_size() != me.size:
        name, version = MPI.get_vendor()
        raise BootstrapError(
            f"{me.launcher} has started {me.size} ranks, but {name} "
            f"{'.'.join(map(str, version))}, which mpi4py uses, finds "
            f"{MPI.COMM_WORLD.Get_size()}; use the launcher of that MPI, of srun an "
            "--mpi that it knows (pmi2 or pmix), or collalgo run -H",
            rank=me.rank,
        )
    return MPI.COMM_WORLD


def communicator(comm: Any, engine: str | None = None) -> Communicator:
    """The communicator of the same ranks as one of mpi4py; all of them must call.

    It is made at the first call, and kept with the communicator of mpi4py until that
    is freed.
    """
    from mpi4py import MPI

    global _keyval  # noqa: PLW0603
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(delete_fn=_forget)
    kept = comm.Get_attr(_keyval)
    if isinstance(kept, Communicator) and not kept.closed:
        return kept
    made = _connect(comm, engine)
    comm.Set_attr(_keyval, made)
    return made


def _forget(_comm: Any, _keyval: int, kept: Communicator) -> None:
    kept.close()


def _connect(comm: Any, engine: str | None) -> Communicator:
    """Find out who is on which host, and meet there or on all of them."""
    private = comm.Dup()
    ours: Engine = Ucx() if asked_for(engine) == "ucx" else Mpi(private)
    exchange_group = OverMpi(private)
    # Mpi asks MPI which ranks are near; all have to ask it, or none.
    same_engine(exchange_group.allgather(ours.kind))
    connection = connect(exchange_group, ours, JOIN_TIMEOUT)
    if connection.engine is None or not isinstance(ours, Mpi):
        private.Free()
    return Communicator(connection)
