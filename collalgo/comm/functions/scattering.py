"""Collectives that reduce, and leave each rank a block of the result."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cython.cimports.collalgo._kernels.comm.arg_reductions import is_arg_reduction
from cython.cimports.collalgo._kernels.comm.reducing import runner_of

from collalgo._kernels.comm.arg_reductions import reduce_arg
from collalgo.comm.background import in_background
from collalgo.comm.types import Array, ArrayLike, Communicator, OpLike
from collalgo.engine.call import AlgorithmChoice, Reproducible

if TYPE_CHECKING:
    import mpi4py.MPI


def reduce_scatter(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    counts: Sequence[int] | None = None,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    reproducible: Reproducible = False,
    timeout: float | None = None,
) -> Array:
    """Reduce the arrays of all ranks and leave each rank a block of axis 0.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank; unchanged.
    comm
        The communicator.
    op
        See :func:`collalgo.allreduce`.
    counts
        The length of each rank's block; by default they differ by at most one, as
        with :func:`numpy.array_split`.
    out
        The array for this rank's block; it may be that part of ``buf``. By default a
        new array.
    algorithm, timeout
        See the module.
    reproducible
        See :func:`collalgo.allreduce`.

    Returns
    -------
    array
        Of shape ``(counts[rank], *buf.shape[1:])``; of int64 if op is ``argmin`` or
        ``argmax``.
    """
    if is_arg_reduction(buf, op):
        call = partial(
            reduce_scatter,
            counts=counts,
            algorithm=algorithm,
            reproducible=reproducible,
            timeout=timeout,
        )
        return reduce_arg(call, runner_of(comm), buf, op, out)
    return runner_of(comm).reduce_scatter(
        buf, op, counts, out, algorithm, reproducible, timeout
    )


reduce_scatter_async = in_background(reduce_scatter)


def reduce_scatter_block(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    reproducible: Reproducible = False,
    timeout: float | None = None,
) -> Array:
    """Reduce the arrays of all ranks and leave each rank an equal block of axis 0.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank, whose axis 0 has a multiple
        of ``size`` rows; unchanged.
    comm
        The communicator.
    op
        See :func:`collalgo.allreduce`.
    out
        The array for this rank's block; it may be that part of ``buf``. By default a
        new array.
    algorithm, timeout
        See the module.
    reproducible
        See :func:`collalgo.allreduce`.

    Returns
    -------
    array
        Of shape ``(len(buf) // size, *buf.shape[1:])``; of int64 if op is ``argmin`` or
        ``argmax``.
    """
    if is_arg_reduction(buf, op):
        call = partial(
            reduce_scatter_block,
            algorithm=algorithm,
            reproducible=reproducible,
            timeout=timeout,
        )
        return reduce_arg(call, runner_of(comm), buf, op, out)
    return runner_of(comm).reduce_scatter_block(
        buf, op, out, algorithm, reproducible, timeout
    )


reduce_scatter_block_async = in_background(reduce_scatter_block)


def reduce_scatterv(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    counts: Sequence[int] | None = None,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    reproducible: Reproducible = False,
    timeout: float | None = None,
) -> Array:
    """Reduce the arrays of all ranks and leave each rank a block of a given length.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank; unchanged.
    comm
        The communicator.
    op
        See :func:`collalgo.allreduce`.
    counts
        The length of each rank's block of axis 0, on every rank or on none; by default
        the ranks exchange the lengths of ``out``, which costs a small allgather.
    out
        The array for this rank's block; it may be that part of ``buf``. By default a
        new array.
    algorithm, timeout
        See the module.
    reproducible
        See :func:`collalgo.allreduce`.

    Returns
    -------
    array
        Of shape ``(counts[rank], *buf.shape[1:])``; of int64 if op is ``argmin`` or
        ``argmax``.
    """
    if is_arg_reduction(buf, op):
        call = partial(
            reduce_scatterv,
            counts=counts,
            algorithm=algorithm,
            reproducible=reproducible,
            timeout=timeout,
        )
        return reduce_arg(call, runner_of(comm), buf, op, out)
    return runner_of(comm).reduce_scatterv(
        buf, op, counts, out, algorithm, reproducible, timeout
    )


reduce_scatterv_async = in_background(reduce_scatterv)
