"""Collectives that move data to every rank, unchanged."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from cython.cimports.collalgo._kernels.comm.reducing import runner_of

from collalgo._kernels.comm.listed import allgather_into, alltoall_list
from collalgo._kernels.comm.trees import allgather_tree, broadcast_tree
from collalgo.comm.announced import broadcast_like
from collalgo.comm.background import in_background
from collalgo.comm.types import Array, ArrayLike, Communicator, CountsLike, Tree
from collalgo.engine.call import AlgorithmChoice

if TYPE_CHECKING:
    import mpi4py.MPI


def broadcast(
    buf: Tree | None,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    root: int = 0,
    *,
    like: Tree | Literal["buf"] | None = "buf",
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Broadcast the array of the root to every rank, in place.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank; read at the
        root, overwritten elsewhere. Or a list, tuple or dictionary of arrays of any
        dtypes, or of further ones; the small ones move in one message.
    comm
        The communicator.
    root
        The rank whose array it is.
    like
        On every rank None if only the root knows the shape and the dtype: they travel
        in a message before, and ``buf`` of the others is ignored. An array here makes a
        new one like it for the result. By default the result replaces ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        ``buf``; with ``like`` a new array, except at the root.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> def from_first(comm):
    ...     x = np.arange(3) if comm.rank == 0 else None
    ...     return comm.broadcast(x, like=None)
    >>> collalgo.threads(from_first, size=2)
    [array([0, 1, 2]), array([0, 1, 2])]
    """
    if not isinstance(like, str) or like != "buf":
        runner = runner_of(comm)
        rest = partial(
            broadcast, comm=comm, root=root, algorithm=algorithm, timeout=timeout
        )
        number = runner.root_of(root, "broadcast")
        return broadcast_like(runner, buf, number, like, timeout, rest)
    if isinstance(buf, (list, tuple, dict)):
        return broadcast_tree(runner_of(comm), buf, root, algorithm, timeout)
    return runner_of(comm).broadcast(buf, root, algorithm, timeout)


broadcast_async = in_background(broadcast)


def allgather(
    buf: Tree,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    *,
    out: Tree | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Allgather: stack the arrays of all ranks, at every rank.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank. Shapes are not
        compared: with another one of as many elements, the rows are of the shape here.
        Or a list, tuple or dictionary of arrays of any dtypes, or of further ones; the
        small ones move in one message.
    comm
        The communicator.
    out
        The array for the result, of shape ``(size, *buf.shape)``; ``buf`` may be its
        part ``out[rank]``. By default a new array. Or a list with an array for each
        rank, of the shape of its ``buf``, which may differ. For several arrays in
        ``buf``, such arrays in its structure.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        Of shape ``(size, *buf.shape)``, or ``out``.
    """
    if isinstance(buf, (list, tuple, dict)):
        return allgather_tree(runner_of(comm), buf, out, algorithm, timeout)
    if isinstance(out, (list, tuple)):
        return allgather_into(runner_of(comm), buf, out, algorithm, timeout)
    return runner_of(comm).allgather(buf, out, algorithm, timeout)


allgather_async = in_background(allgather)


def allgatherv(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    counts: Sequence[int] | None = None,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Concatenate the arrays of all ranks on axis 0, at every rank.

    Parameters
    ----------
    buf
        An array whose axis 0 may have another length on each rank.
    comm
        The communicator.
    counts
        The length of axis 0 on each rank, on every rank or on none; by default the
        ranks exchange them, which costs a small allgather.
    out
        The array for the result, of shape ``(sum(counts), *buf.shape[1:])``; by default
        a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        Of shape ``(sum(counts), *buf.shape[1:])``.
    """
    return runner_of(comm).allgatherv(buf, counts, out, algorithm, timeout)


allgatherv_async = in_background(allgatherv)


def alltoall(
    buf: ArrayLike | Sequence[ArrayLike],
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    *,
    out: ArrayLike | Sequence[ArrayLike] | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Exchange equal blocks of axis 0: block i goes to rank i.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank, whose axis 0 has a
        multiple of ``size`` rows. Or a list with an array for each rank, of one dtype
        and any shapes.
    comm
        The communicator.
    out
        The array for the blocks, of the shape of ``buf`` and with memory of its own;
        by default a new array. For a list, one of arrays of the shapes that the ranks
        send; by default new arrays, whose shapes cost two small allgathers.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        Of the shape of ``buf``: block i is that of rank i; for a list a list of them.

    Raises
    ------
    MismatchError
        If an array in ``out`` has another number of elements than was sent to it.
    """
    if isinstance(buf, (list, tuple)):
        return alltoall_list(runner_of(comm), buf, out, algorithm, timeout)
    return runner_of(comm).alltoall(buf, out, algorithm, timeout)


alltoall_async = in_background(alltoall)


def alltoallv(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    counts: CountsLike | None = None,
    receive_counts: Sequence[int] | None = None,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
    """Exchange blocks of axis 0 of any lengths.

    Parameters
    ----------
    buf
        An array whose axis 0 has a block for every rank, in their order.
    comm
        The communicator.
    counts
        The number of rows for each rank; the ranks exchange them, which costs a small
        allgather. Or, on every rank, the same table, which costs nothing:
        ``counts[i][j]`` rows go from rank i to rank j.
    receive_counts
        The number of rows from each rank, on every rank or on none. ``counts`` are then
        those for each rank, and all ranks raise an error if two differ in what one
        sends to the other. On two ranks a pair of lists as ``counts`` is a table.
    out
        The array for the blocks, with memory of its own; by default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        The received blocks, in the order of the ranks.
    """
    return runner_of(comm).alltoallv(
        buf, counts, receive_counts, out, algorithm, timeout
    )


alltoallv_async = in_background(alltoallv)


def barrier(
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    *,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> None:
    """Wait until every rank has made this call.

    Parameters
    ----------
    comm
        The communicator.
    algorithm, timeout
        See the module.
    """
    runner_of(comm).barrier(algorithm, timeout)


barrier_async = in_background(barrier)
