"""Communicators from mpi4py: the ranks connect over MPI.

Ranks on one host then use only shared memory; between hosts the engine is MPI, unless
the user selects another.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.transport.mpi import MpiTurn
from collalgo.base.environment import JOB
from collalgo.bootstrap import pmi
from collalgo.bootstrap.connect import connect, same_engine, without_mpi
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.exchange import ExchangeGroup
from collalgo.bootstrap.gathered_texts import gathered_texts
from collalgo.bootstrap.identity import Identity, identity
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.comm.communicator import Communicator
from collalgo.engine.transport.engine import Engine, asked_for
from collalgo.engine.transport.mpi import Mpi, unlink_mpich_memory
from collalgo.errors import BootstrapError, CollalgoError, CommunicatorClosed

_keyval: int | None = None

#: Held around calls of MPI that do not wait for other ranks.
TURN = MpiTurn()


class OverMpi:
    """An exchange group over the processes of an mpi4py communicator."""

    def __init__(self, comm: Any):
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self._comm = comm

    def allgather(self, text: str) -> list[str]:
        """The texts of all processes, by rank."""
        return gathered_texts(text, self._gather_length, self._gather)

    def broadcast(self, text: str) -> str:
        """The text of rank 0."""
        return self.allgather(text if self.rank == 0 else "")[0]

    def _gather_length(self, length: int) -> NDArray[np.int64]:
        return self._gather(np.array([length], np.int64))

    def _gather(self, mine: NDArray[Any]) -> NDArray[Any]:
        found = np.empty(len(mine) * self.size, mine.dtype)
        self._comm.Allgather(mine, found)
        return found


def world_communicator(arguments: JoinArguments) -> Communicator:
    """The world communicator of a process started by an mpiexec.

    Without mpi4py, or with UCX as the engine, the ranks connect through PMI if their
    launcher supports it; MPI is not initialised then. One that is initialised already
    uses the connection with the launcher, and leaves it by itself.
    """
    me = arguments.launched
    assert me is not None
    by_pmi, asked = pmi.VARIABLE in os.environ, asked_for(arguments.engine)
    if not by_pmi or asked in {None, "mpi"} or _is_in_use():
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            if asked == "mpi" or not by_pmi:
                raise BootstrapError(
                    f"this process was started by {me.launcher} and needs mpi4py to "
                    f"connect to the other ranks ({error}); install it with: "
                    "pip install collalgo[mpi]"
                ) from None
        else:
            return communicator(_world_of(MPI, me), asked, arguments.timeout)
    launcher = pmi.connection(os.environ, me.rank, me.size, arguments.timeout)
    longest = launcher.longest_text
    ucx = _usable_by_all(launcher, lambda: without_mpi(asked, me.rank), longest)
    return Communicator(connect(launcher, ucx, arguments.timeout))


def _is_in_use() -> bool:
    """Whether this process has initialised MPI."""
    loaded = sys.modules.get("mpi4py.MPI")
    return loaded is not None and bool(loaded.Is_initialized())


def _usable_by_all(
    exchange_group: ExchangeGroup,
    make: Callable[[], Engine],
    longest: int | None = None,
) -> Engine:
    """The engine that ``make`` returns; all ranks raise the error of one of them.

    If only that rank raised, the others would wait for it until their timeout.
    ``longest`` is the most characters of an error that can be sent to the others.
    """
    problem = ""
    try:
        engine = make()
    except CollalgoError as error:
        problem = str(error)
    for rank, told in enumerate(exchange_group.allgather(problem[:longest])):
        if told:
            text = problem if rank == exchange_group.rank else told
            raise BootstrapError(text, rank=rank, missing=(rank,))
    return engine


def _world_of(mpi: Any, me: Identity) -> Any:
    """``MPI.COMM_WORLD``, which must have the size that the launcher started.

    Raises
    ------
    BootstrapError
        If MPI does not recognise the launcher; each process is then a world of size 1.
    """
    if mpi.COMM_WORLD.Get_size() != me.size:
        name, version = mpi.get_vendor()
        raise BootstrapError(
            f"{me.launcher} has started {me.size} ranks, but {name} "
            f"{'.'.join(map(str, version))}, which mpi4py uses, finds "
            f"{mpi.COMM_WORLD.Get_size()}; use the launcher of that MPI, of srun an "
            "--mpi that it knows (pmi2 or pmix), or collalgo run -H",
            rank=me.rank,
        )
    return mpi.COMM_WORLD


def communicator(
    comm: Any, engine: str | None = None, timeout: float = JOIN_TIMEOUT
) -> Communicator:
    """The communicator of the ranks of an mpi4py communicator; a collective call.

    The first call creates it. It is cached as an attribute of the mpi4py communicator
    until that is freed.

    Raises
    ------
    CommunicatorClosed
        If it was freed, or is ``MPI.COMM_NULL``.
    TypeError
        If it is an intercommunicator.
    """
    from mpi4py import MPI

    global _keyval  # noqa: PLW0603
    with TURN:
        _check_usable(comm)
        if _keyval is None:
            _keyval = MPI.Comm.Create_keyval(delete_fn=_forget)
        kept = comm.Get_attr(_keyval)
    if isinstance(kept, Communicator) and not kept.closed:
        return kept
    _check_launched(comm)
    made = _connect(comm, engine, timeout)
    with TURN:
        comm.Set_attr(_keyval, made)
    return made


def _null_and_inter(mpi: Any, comm: Any) -> tuple[bool, bool]:
    """Whether a communicator is COMM_NULL, and whether it is an intercommunicator."""
    try:
        gone = comm == mpi.COMM_NULL
        return gone, not gone and comm.Is_inter()
    except mpi.Exception as error:
        raise CommunicatorClosed(
            f"comm is no longer a communicator of MPI ({error}); pass one that has not "
            "been freed"
        ) from None


def _check_usable(comm: Any) -> None:
    """Check that a communicator of mpi4py has ranks that can call each other."""
    from mpi4py import MPI

    if MPI.Is_finalized():
        raise CommunicatorClosed(
            "comm is a communicator of MPI, which was finalized; make calls before "
            "MPI.Finalize()"
        )
    gone, between_groups = _null_and_inter(MPI, comm)
    if gone:
        raise CommunicatorClosed(
            "comm is MPI.COMM_NULL: it was freed, or this process is not in it; pass a "
            "communicator that this process is in, and has not freed"
        )
    if between_groups:
        raise TypeError(
            "comm is an intercommunicator of MPI, between two groups of ranks; pass a "
            "communicator of a single group, such as comm.Merge()"
        )


def _check_launched(comm: Any) -> None:
    """Refuse a world of one where the launcher of this library started several ranks.

    MPI does not know that launcher, so the others would not be in any call.
    """
    if not JOB.given():
        return
    from mpi4py import MPI

    me = identity()
    if me.size > 1 == MPI.COMM_WORLD.Get_size() and comm == MPI.COMM_WORLD:
        raise BootstrapError(
            f"MPI.COMM_WORLD has 1 rank, but {me.launcher} has started {me.size}; pass "
            "no communicator, or start the ranks by collalgo run --mpi or mpiexec",
            rank=me.rank,
        )


def _forget(_comm: Any, _keyval: int, kept: Communicator) -> None:
    kept.close()


def _connect(comm: Any, engine: str | None, timeout: float) -> Communicator:
    """Connect the ranks within each host and, if there are several, between hosts."""
    private = comm.Dup()
    exchange_group = OverMpi(private)
    try:
        ours = _engine(engine, private, exchange_group)
        # Mpi calls a collective of MPI to find the ranks on each host: all ranks must.
        same_engine(exchange_group.allgather(ours.kind))
    except BootstrapError:  # of all ranks alike, which free it together
        private.Free()
        raise
    connection = connect(exchange_group, ours, timeout)
    unlink_mpich_memory()
    if connection.engine is None or not isinstance(ours, Mpi):
        private.Free()
    return Communicator(connection)


def _engine(engine: str | None, private: Any, exchange_group: OverMpi) -> Engine:
    """The engine between hosts: MPI, unless UCX is requested.

    Raises
    ------
    BootstrapError
        On all ranks, if one of them cannot load UCX.
    """

    def make() -> Engine:
        if asked_for(engine) not in {None, "mpi"}:
            return without_mpi(engine, exchange_group.rank)
        return Mpi(private)

    return _usable_by_all(exchange_group, make)
