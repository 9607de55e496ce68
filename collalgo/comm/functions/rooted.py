"""Collectives that move data to one rank or from it, unchanged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cython.cimports.collalgo._kernels.comm.reducing import runner_of

from collalgo.comm.background import in_background
from collalgo.comm.types import Array, ArrayLike, Communicator
from collalgo.engine.call import AlgorithmChoice

if TYPE_CHECKING:
    import mpi4py.MPI


def gather(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    root: int = 0,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Gather: stack the arrays of all ranks at the root.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank.
    comm
        The communicator.
    root
        The rank that receives them.
    out
        The array for the result at the root, of shape ``(size, *buf.shape)``; ``buf``
        may be its part ``out[root]``. By default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array or None
        Of shape ``(size, *buf.shape)`` at the root, None elsewhere.
    """
    return runner_of(comm).gather(buf, root, out, algorithm, timeout)


gather_async = in_background(gather)


def gatherv(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    counts: Sequence[int] | None = None,
    root: int = 0,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Concatenate the arrays of all ranks on axis 0 at the root.

    Parameters
    ----------
    buf
        An array whose axis 0 may have another length on each rank.
    comm
        The communicator.
    counts
        The length of axis 0 on each rank, on every rank or on none; by default the
        ranks exchange them, which costs a small allgather.
    root
        The rank that receives them.
    out
        The array for the result at the root, of shape
        ``(sum(counts), *buf.shape[1:])``; by default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array or None
        Of shape ``(sum(counts), *buf.shape[1:])`` at the root, None elsewhere.
    """
    return runner_of(comm).gatherv(buf, counts, root, out, algorithm, timeout)


gatherv_async = in_background(gatherv)


def scatter(
    buf: ArrayLike | None,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    root: int = 0,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Scatter: give every rank its part of the root's array.

    Parameters
    ----------
    buf
        At the root an array of shape ``(size, *shape)``; elsewhere one of ``shape`` and
        the same dtype for the part, or with ``out`` anything.
    comm
        The communicator.
    root
        The rank whose array it is.
    out
        The array for this rank's part, of ``shape``; by default ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        This rank's part: ``out`` if given, else ``buf``, and at the root the view
        ``buf[root]``.
    """
    return runner_of(comm).scatter(buf, root, out, algorithm, timeout)


scatter_async = in_background(scatter)


def scatterv(
    buf: ArrayLike | None,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    counts: Sequence[int] | None = None,
    root: int = 0,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Scatter rows: give every rank some rows of the root's array.

    Parameters
    ----------
    buf
        At the root all rows; elsewhere an array for the rows of this rank, or with
        ``out`` anything.
    comm
        The communicator.
    counts
        The rows for each rank, on every rank or on none; by default the ranks
        exchange the lengths of their arrays, and the root keeps the rest, which
        costs a small allgather.
    root
        The rank whose array it is.
    out
        The array for this rank's rows; by default ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        This rank's rows: ``out`` if given, else ``buf``, and at the root a view of its
        part of ``buf``.
    """
    return runner_of(comm).scatterv(buf, counts, root, out, algorithm, timeout)


scatterv_async = in_background(scatterv)
