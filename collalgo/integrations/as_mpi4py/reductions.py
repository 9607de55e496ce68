"""The collectives that reduce buffers, as calls of the library on elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.calls import Call, forms
from collalgo.integrations.as_mpi4py.collectives import MovingCollectives, is_root
from collalgo.integrations.as_mpi4py.memory import is_in_place
from collalgo.integrations.as_mpi4py.ops import SUM, check_alike, defined_op
from collalgo.integrations.as_mpi4py.parts import Part, repeated
from collalgo.integrations.as_mpi4py.specs import is_plain, simple


def _are_alike(sendbuf: Any, recvbuf: Any) -> bool:
    """Whether the engine can take two arrays as they are."""
    return (
        is_plain(sendbuf)
        and is_plain(recvbuf)
        and sendbuf.dtype == recvbuf.dtype
        and sendbuf.shape == recvbuf.shape
        and recvbuf.flags.writeable
    )


def _reduction(name: str, sendbuf: Any, recvbuf: Any, op: Any, **others: Any) -> Call:
    """The call of a reduction whose result has the length of the buffer."""
    if _are_alike(sendbuf, recvbuf) and op.is_predefined and op:
        known = defined_op(op.state.name, sendbuf.dtype)
        return Call(name, {"buf": sendbuf, "op": known, "out": recvbuf, **others})
    received = simple(recvbuf, writable=True)
    target = received.elements()
    arguments = {"buf": target, "op": op.on(received), **others}
    if not is_in_place(sendbuf):
        sent = simple(sendbuf)
        check_alike(sent, received)
        arguments |= {"buf": sent.elements(), "out": target}
    return Call(name, arguments, received.finish)


def reduce(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0) -> Call:
    """Reduce the buffers of all ranks at the root."""
    if is_root(comm, root):
        return _reduction("reduce", sendbuf, recvbuf, op, root=root)
    part = simple(sendbuf)
    arguments = {"buf": part.elements(), "op": op.on(part), "root": root}
    return Call("reduce", arguments)


def allreduce(_comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Call:
    """Reduce the buffers of all ranks at every rank."""
    return _reduction("allreduce", sendbuf, recvbuf, op)


def scan(_comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Call:
    """Reduce the buffers of the ranks from 0 up to each rank."""
    return _reduction("scan", sendbuf, recvbuf, op)


def exscan(_comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Call:
    """Reduce the buffers of the ranks before each rank."""
    return _reduction("exscan", sendbuf, recvbuf, op)


def reduce_scatter_block(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Call:
    """Reduce the buffers of all ranks, and leave each rank an equal block."""
    size = comm.state.size
    if is_in_place(sendbuf):
        part = simple(recvbuf, writable=True, blocks=size)
        return _scattered(repeated(part, size), None, [part.count] * size, op, comm)
    received = simple(recvbuf, writable=True)
    sent = simple(sendbuf, blocks=size)
    check_alike(sent, received)
    counts = [received.count] * size
    return _scattered(repeated(sent, size), received, counts, op, comm)


def reduce_scatter(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    recvcounts: Sequence[int] | None = None,
    op: Any = SUM,
) -> Call:
    """Reduce the buffers of all ranks, and leave each rank a block of any length."""
    received = simple(recvbuf, writable=True)
    if is_in_place(sendbuf):
        counts = [] if recvcounts is None else list(map(int, recvcounts))
        _check_counts(counts, received.count, comm)
        return _scattered(received, None, counts, op, comm)
    if recvcounts is None:
        mine = np.array([received.count], np.int64)
        recvcounts = comm.state.engine.allgather(mine).ravel()
    counts = list(map(int, recvcounts))
    sent = simple(sendbuf)
    _check_counts(counts, sent.count, comm)
    if sent.datatype != received.datatype or received.count != counts[comm.state.rank]:
        raise ValueError(
            f"the receive buffer has {received.count} elements, and the counts are "
            f"{counts}; they must agree, and so must the datatypes"
        )
    return _scattered(sent, received, counts, op, comm)


def _check_counts(counts: list[int], total: int, comm: Any) -> None:
    if len(counts) != comm.state.size or sum(counts) != total:
        raise ValueError(
            f"the counts {counts} are not those of {total} elements for "
            f"{comm.state.size} ranks"
        )


def _scattered(
    sent: Part, received: Part | None, counts: list[int], op: Any, comm: Any
) -> Call:
    """The call that leaves each rank a block; by default at the front of the buffer."""
    source, finish = sent.elements(), sent.finish
    if received is None:
        target, source = source[: counts[comm.state.rank]], source.copy()
    else:
        target, finish = received.elements(), received.finish
    arguments = {"buf": source, "op": op.on(sent), "counts": counts, "out": target}
    return Call("reduce_scatter", arguments, finish)


class Collectives(MovingCollectives):
    """The collectives on buffers; a mixin of communicators."""

    Reduce, Ireduce, Reduce_init = forms(reduce)
    Allreduce, Iallreduce, Allreduce_init = forms(allreduce)
    Reduce_scatter, Ireduce_scatter, Reduce_scatter_init = forms(reduce_scatter)
    (
        Reduce_scatter_block,
        Ireduce_scatter_block,
        Reduce_scatter_block_init,
    ) = forms(reduce_scatter_block)
    Scan, Iscan, Scan_init = forms(scan)
    Exscan, Iexscan, Exscan_init = forms(exscan)
