"""The collectives between the two groups of an intercommunicator.

What one group sends goes to the other. All ranks of both make one alltoallv, in which
only the pairs that the call is about send bytes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import vector_messages
from collalgo.integrations.as_mpi4py.calls import Call, forms
from collalgo.integrations.as_mpi4py.constants import PROC_NULL, ROOT
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.ops import SUM, combine_into
from collalgo.integrations.as_mpi4py.parts import (
    NOTHING,
    Blocks,
    Part,
    equal_blocks,
    repeated,
)
from collalgo.integrations.as_mpi4py.specs import simple, vector, vector_of_types

EMPTY = NOTHING.memory


def _call(comm: Any, sent: Sequence[Bytes], received: Sequence[Part]) -> Call:
    """Send bytes to each rank of the other group, and receive a part from each."""
    state = comm.state
    blocks = Blocks(list(received))
    out, finish = blocks.target()
    arguments = {
        "buf": np.concatenate([*sent, EMPTY]),
        "counts": _at_others(state, [len(data) for data in sent]),
        "out": out,
    }
    return Call("alltoallv", arguments, finish, _at_others(state, blocks.sizes))


def _at_others(state: Any, values: Sequence[int]) -> list[int]:
    """Values for the ranks of the other group, and 0 for those of this one."""
    found = [0] * len(state.joint)
    found[state.remote_place : state.remote_place + len(values)] = values
    return found


def at_place(place: int, number: int, thing: Any, otherwise: Any) -> list[Any]:
    """A list with a thing at the place of a root; with none for ROOT and PROC_NULL."""
    if not 0 <= place < number and place not in (ROOT, PROC_NULL):
        fail("ERR_ROOT", f"root {place} is not one of the {number} ranks")
    return [thing if each == place else otherwise for each in range(number)]


def _to_root(
    comm: Any, root: int, pack: Callable[[], Bytes], parts: Callable[[], Any]
) -> Call:
    """All ranks of a group send to the root in the other, which calls with ROOT."""
    number = len(comm.state.remote)
    if root == ROOT:
        return _call(comm, [EMPTY] * number, parts())
    sent = EMPTY if root == PROC_NULL else pack()
    return _call(comm, at_place(root, number, sent, EMPTY), [NOTHING] * number)


def _from_root(
    comm: Any, root: int, pack: Callable[[], Any], part: Callable[[], Part]
) -> Call:
    """The root, which calls with ROOT, sends to all ranks of the other group."""
    number = len(comm.state.remote)
    if root == ROOT:
        return _call(comm, pack(), [NOTHING] * number)
    received = NOTHING if root == PROC_NULL else part()
    return _call(comm, [EMPTY] * number, at_place(root, number, received, NOTHING))


def _blocks(buf: Any, number: int, *, writable: bool = False) -> list[Part]:
    """Equal blocks of a buffer of a program."""
    return equal_blocks(simple(buf, writable=writable, blocks=number), number)


def _packed(parts: Sequence[Part]) -> list[Bytes]:
    return [part.pack() for part in parts]


def _remote_size(comm: Any) -> int:
    return len(comm.state.remote)


def bcast(comm: Any, buf: Any, root: int = 0) -> Call:
    """Give every rank of the other group the buffer of the root."""
    return _from_root(
        comm,
        root,
        lambda: [simple(buf).pack()] * _remote_size(comm),
        lambda: simple(buf, writable=True),
    )


def gather(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Gather the buffers of the other group at the root."""
    number = _remote_size(comm)
    return _to_root(
        comm,
        root,
        lambda: simple(sendbuf).pack(),
        lambda: _blocks(recvbuf, number, writable=True),
    )


def gatherv(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Gather buffers of any lengths of the other group at the root."""
    number = _remote_size(comm)
    return _to_root(
        comm,
        root,
        lambda: simple(sendbuf).pack(),
        lambda: vector(recvbuf, number, writable=True).parts,
    )


def scatter(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Give every rank of the other group its block of the buffer of the root."""
    number = _remote_size(comm)
    return _from_root(
        comm,
        root,
        lambda: _packed(_blocks(sendbuf, number)),
        lambda: simple(recvbuf, writable=True),
    )


def scatterv(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """As :func:`scatter`, with blocks of any lengths."""
    number = _remote_size(comm)
    return _from_root(
        comm,
        root,
        lambda: _packed(vector(sendbuf, number).parts),
        lambda: simple(recvbuf, writable=True),
    )


def allgather(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Gather the buffers of the other group at every rank."""
    number = _remote_size(comm)
    sent = [simple(sendbuf).pack()] * number
    return _call(comm, sent, _blocks(recvbuf, number, writable=True))


def allgatherv(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """As :func:`allgather`, with buffers of any lengths."""
    number = _remote_size(comm)
    sent = [simple(sendbuf).pack()] * number
    return _call(comm, sent, vector(recvbuf, number, writable=True).parts)


def alltoall(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Swap equal blocks with the other group."""
    number = _remote_size(comm)
    sent = _packed(_blocks(sendbuf, number))
    return _call(comm, sent, _blocks(recvbuf, number, writable=True))


def alltoallv(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Swap blocks of any lengths with the other group."""
    number = _remote_size(comm)
    sent = _packed(vector(sendbuf, number).parts)
    return _call(comm, sent, vector(recvbuf, number, writable=True).parts)


def alltoallw(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Swap blocks of any lengths and datatypes with the other group."""
    number = _remote_size(comm)
    sent = _packed(vector_of_types(sendbuf, number).parts)
    return _call(comm, sent, vector_of_types(recvbuf, number, writable=True).parts)


# ---- reductions: the receiver combines what the other group sends


def _combining(
    comm: Any, sent: Sequence[Bytes], whole: int, received: Part, op: Any, start: int
) -> Call:
    """Receive ``whole`` elements of each rank, and combine some from ``start`` on."""
    number, nbytes = _remote_size(comm), whole * received.datatype.extent
    rows = Part(np.empty(number * nbytes, np.uint8), received.datatype, whole)
    call = _call(comm, sent, equal_blocks(rows, number))

    def finish() -> None:
        if call.finish is not None:
            call.finish()
        every = repeated(rows, number).elements().reshape(number, whole)
        part = [row[start : start + received.count] for row in every]
        combine_into(op, received, part)

    return call._replace(finish=finish)


def reduce(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0) -> Call:
    """Reduce the buffers of the other group at the root."""
    number = _remote_size(comm)
    if root != ROOT:
        return _to_root(comm, root, lambda: simple(sendbuf).pack(), list)
    part = simple(recvbuf, writable=True)
    return _combining(comm, [EMPTY] * number, part.count, part, op, 0)


def allreduce(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Call:
    """Reduce the buffers of the other group at every rank."""
    part = simple(recvbuf, writable=True)
    sent = [simple(sendbuf).pack()] * _remote_size(comm)
    return _combining(comm, sent, part.count, part, op, 0)


def reduce_scatter_block(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Call:
    """Reduce the buffers of the other group, and leave each rank an equal block."""
    part, state = simple(recvbuf, writable=True), comm.state
    sent = [simple(sendbuf).pack()] * _remote_size(comm)
    start, whole = state.rank * part.count, state.size * part.count
    return _combining(comm, sent, whole, part, op, start)


def reduce_scatter(
    comm: Any, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int], op: Any = SUM
) -> Call:
    """Reduce the buffers of the other group, and leave each rank a block."""
    part, counts = simple(recvbuf, writable=True), list(map(int, recvcounts))
    sent = [simple(sendbuf).pack()] * _remote_size(comm)
    start = sum(counts[: comm.state.rank])
    return _combining(comm, sent, sum(counts), part, op, start)


def _forms(prepare: Callable[..., Call]) -> tuple[Any, Any, Any]:
    return forms(prepare, start=vector_messages.start)


class InterCollectives:
    """The collectives between two groups; a mixin of intercommunicators."""

    state: Any

    Bcast, Ibcast, Bcast_init = _forms(bcast)
    Gather, Igather, Gather_init = _forms(gather)
    Gatherv, Igatherv, Gatherv_init = _forms(gatherv)
    Scatter, Iscatter, Scatter_init = _forms(scatter)
    Scatterv, Iscatterv, Scatterv_init = _forms(scatterv)
    Allgather, Iallgather, Allgather_init = _forms(allgather)
    Allgatherv, Iallgatherv, Allgatherv_init = _forms(allgatherv)
    Alltoall, Ialltoall, Alltoall_init = _forms(alltoall)
    Alltoallv, Ialltoallv, Alltoallv_init = _forms(alltoallv)
    Alltoallw, Ialltoallw, Alltoallw_init = _forms(alltoallw)
    Reduce, Ireduce, Reduce_init = _forms(reduce)
    Allreduce, Iallreduce, Allreduce_init = _forms(allreduce)
    Reduce_scatter, Ireduce_scatter, Reduce_scatter_init = _forms(reduce_scatter)
    (
        Reduce_scatter_block,
        Ireduce_scatter_block,
        Reduce_scatter_block_init,
    ) = _forms(reduce_scatter_block)
