"""The collectives that move buffers, as calls of the library on bytes."""

from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import vector_messages
from collalgo.integrations.as_mpi4py.calls import Call, forms
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import is_in_place
from collalgo.integrations.as_mpi4py.parts import Blocks, Part, repeated
from collalgo.integrations.as_mpi4py.specs import simple, vector, vector_of_types


def is_root(comm: Any, root: int) -> bool:
    """Whether this rank is the root."""
    size = comm.state.size
    if not 0 <= root < size:
        fail("ERR_ROOT", f"root {root} is not one of the {size} ranks")
    return bool(root == comm.state.rank)


def barrier(_comm: Any) -> Call:
    """Wait until every rank has made this call."""
    return Call("barrier", {})


def bcast(comm: Any, buf: Any, root: int = 0) -> Call:
    """Give every rank the buffer of the root."""
    if is_root(comm, root):
        return Call("broadcast", {"buf": _packed(buf), "root": root})
    array, finish = simple(buf, writable=True).target()
    return Call("broadcast", {"buf": array, "root": root}, finish)


# ---- equal blocks


def gather(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Gather the buffers of all ranks at the root."""
    if not is_root(comm, root):
        return Call("gather", {"buf": _packed(sendbuf), "root": root})
    size = comm.state.size
    part = simple(recvbuf, writable=True, blocks=size)
    out, finish = repeated(part, size).target()
    out = out.reshape(size, part.nbytes)
    mine = _row(part, out, finish, root) if is_in_place(sendbuf) else _packed(sendbuf)
    return Call("gather", {"buf": mine, "root": root, "out": out}, finish)


def scatter(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Give every rank its block of the buffer of the root."""
    rows = None
    if is_root(comm, root):
        size = comm.state.size
        part = simple(sendbuf, blocks=size)
        rows = repeated(part, size).pack().reshape(size, part.nbytes)
        if is_in_place(recvbuf):
            return Call("scatter", {"buf": rows, "root": root})
    out, finish = simple(recvbuf, writable=True).target()
    return Call("scatter", {"buf": rows, "root": root, "out": out}, finish)


def allgather(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Gather the buffers of all ranks at every rank."""
    size, rank = comm.state.size, comm.state.rank
    part = simple(recvbuf, writable=True, blocks=size)
    out, finish = repeated(part, size).target()
    out = out.reshape(size, part.nbytes)
    mine = _row(part, out, finish, rank) if is_in_place(sendbuf) else _packed(sendbuf)
    return Call("allgather", {"buf": mine, "out": out}, finish)


def alltoall(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Swap equal blocks: block i goes to rank i."""
    size = comm.state.size
    whole = repeated(simple(recvbuf, writable=True, blocks=size), size)
    out, finish = whole.target()
    if is_in_place(sendbuf):
        sent = whole.pack().copy()
    else:
        sent = repeated(simple(sendbuf, blocks=size), size).pack()
    return Call("alltoall", {"buf": sent, "out": out}, finish)


def _packed(buf: Any) -> Any:
    """The bytes of a buffer that is sent."""
    return simple(buf).pack()


def _row(part: Part, out: Any, finish: Any, rank: int) -> Any:
    """The row of a rank that is in the array of the result already."""
    if finish is not None:  # the array is packed
        out[...] = repeated(part, len(out)).pack().reshape(out.shape)
    return out[rank]


# ---- blocks of any lengths


def gatherv(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Gather buffers of any lengths at the root."""
    if not is_root(comm, root):
        return Call("gatherv", {"buf": _packed(sendbuf), "root": root})
    blocks = vector(recvbuf, comm.state.size, writable=True)
    out, finish = blocks.target()
    mine = _own(blocks, root) if is_in_place(sendbuf) else _packed(sendbuf)
    arguments = {"buf": mine, "root": root, "out": out}
    return Call("gatherv", arguments, finish, blocks.sizes)


def scatterv(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
    """Give every rank its block, of any length, of the buffer of the root."""
    rows, out, finish, sizes = None, None, None, []
    if is_root(comm, root):
        blocks = vector(sendbuf, comm.state.size)
        rows, sizes = blocks.pack(), blocks.sizes
        if is_in_place(recvbuf):
            out = np.empty(sizes[root], np.uint8)
    if out is None:
        out, finish = simple(recvbuf, writable=True).target()
    return Call("scatterv", {"buf": rows, "root": root, "out": out}, finish, sizes)


def allgatherv(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Gather buffers of any lengths at every rank."""
    blocks = vector(recvbuf, comm.state.size, writable=True)
    out, finish = blocks.target()
    is_mine = is_in_place(sendbuf)
    mine = _own(blocks, comm.state.rank) if is_mine else _packed(sendbuf)
    arguments = {"buf": mine, "counts": blocks.sizes, "out": out}
    return Call("allgatherv", arguments, finish)


def alltoallv(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Swap blocks of any lengths."""
    return _alltoall(comm, sendbuf, recvbuf, vector)


def alltoallw(comm: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Swap blocks of any lengths and datatypes."""
    return _alltoall(comm, sendbuf, recvbuf, vector_of_types)


def _alltoall(comm: Any, sendbuf: Any, recvbuf: Any, read: Any) -> Call:
    size = comm.state.size
    received = read(recvbuf, size, writable=True)
    out, finish = received.target()
    if is_in_place(sendbuf):
        sent, counts = received.pack().copy(), received.sizes
    else:
        blocks = read(sendbuf, size)
        sent, counts = blocks.pack(), blocks.sizes
    arguments = {"counts": counts, "receive_counts": received.sizes, "out": out}
    return Call("alltoallv", {"buf": sent, **arguments}, finish, received.sizes)


def _own(blocks: Blocks, rank: int) -> Any:
    """A copy of the block of a rank."""
    return blocks.parts[rank].pack().copy()


class MovingCollectives:
    """The collectives that move buffers; a mixin of communicators."""

    Barrier, Ibarrier, Barrier_init = forms(barrier)
    Bcast, Ibcast, Bcast_init = forms(bcast)
    Gather, Igather, Gather_init = forms(gather)
    Gatherv, Igatherv, Gatherv_init = forms(gatherv, start=vector_messages.start)
    Scatter, Iscatter, Scatter_init = forms(scatter)
    Scatterv, Iscatterv, Scatterv_init = forms(scatterv, start=vector_messages.start)
    Allgather, Iallgather, Allgather_init = forms(allgather)
    Allgatherv, Iallgatherv, Allgatherv_init = forms(allgatherv)
    Alltoall, Ialltoall, Alltoall_init = forms(alltoall)
    Alltoallv, Ialltoallv, Alltoallv_init = forms(
        alltoallv, start=vector_messages.start
    )
    Alltoallw, Ialltoallw, Alltoallw_init = forms(
        alltoallw, start=vector_messages.start
    )
