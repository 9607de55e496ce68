"""Names of ``mpi4py.MPI`` outside its interface that Python modules of mpi4py use."""

import copy
from typing import Any

from collalgo.integrations.as_mpi4py.constants import MAX_TAG
from collalgo.integrations.as_mpi4py.process import PROCESS

#: What distinguishes the messages of such modules from those of the program.
BIT = 2


def set_abort_status(status: object) -> None:
    """End this process with an exit code, if there is a failure."""
    if status:
        PROCESS.abort(status if isinstance(status, int) else 1)


def comm_lock_table(comm: Any) -> Any:
    """The locks of this process for the calls of a communicator."""
    return comm.state.locks


def comm_lock(comm: Any, key: Any = None) -> Any:
    """A lock of this process for a call of a communicator."""
    return comm.state.lock(key)


def private_comm(comm: Any) -> Any:
    """The same ranks with messages of their own."""
    state = comm.state
    if state.private is None:
        state.private = copy.copy(state)
        state.private.context |= BIT
    return type(comm).of_state(state.private)


def next_private(comm: Any) -> tuple[Any, int]:
    """A private communicator, and the tag of its next call, which all ranks make."""
    comm.state.private_calls += 1
    return private_comm(comm), comm.state.private_calls % MAX_TAG


def type_code(datatype: Any) -> str | None:
    """The code of the elements of a datatype in NumPy; None if they differ."""
    dtype = datatype.state.dtype
    return None if dtype is None or dtype.names else str(dtype.char)


def type_alignment(datatype: Any) -> int | None:
    """The alignment of the elements of a predefined datatype, in bytes."""
    dtype = datatype.state.dtype
    return None if dtype is None else int(dtype.alignment)


#: The functions by their names in the module.
FUNCTIONS = {
    "_set_abort_status": set_abort_status,
    "_comm_lock_table": comm_lock_table,
    "_comm_lock": comm_lock,
    "_commctx_intra": next_private,
    "_typecode": type_code,
    "_typealign": type_alignment,
}
