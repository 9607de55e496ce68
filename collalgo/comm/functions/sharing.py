"""Collectives after which every rank has something of every other, unchanged."""

from collections.abc import Sequence
from typing import Any

from collalgo.comm.world import resolve
from collalgo.engine.call import AlgorithmChoice


def broadcast(
    buf: Any,
    comm: Any = None,
    root: int = 0,
    *,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Give every rank the array of the root, in place.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank; read at the
        root, overwritten elsewhere.
    comm
        The communicator.
    root
        The rank whose array it is.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        ``buf``.
    """
    return resolve(comm).broadcast(buf, root, algorithm=algorithm, timeout=timeout)


def allgather(
    buf: Any,
    comm: Any = None,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Stack the arrays of all ranks, at every rank.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank.
    comm
        The communicator.
    out
        Where the result goes, of shape ``(size, *buf.shape)``; ``buf`` may be its part
        ``out[rank]``. By default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        Of shape ``(size, *buf.shape)``.
    """
    return resolve(comm).allgather(buf, out=out, algorithm=algorithm, timeout=timeout)


def allgatherv(
    buf: Any,
    comm: Any = None,
    counts: Sequence[int] | None = None,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Join the arrays of all ranks on axis 0, at every rank.

    Parameters
    ----------
    buf
        An array whose axis 0 may have another length on each rank.
    comm
        The communicator.
    counts
        The length of axis 0 on each rank; by default the ranks tell each other, which
        costs a small allgather.
    out
        Where the result goes, of shape ``(sum(counts), *buf.shape[1:])``; by default a
        new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        Of shape ``(sum(counts), *buf.shape[1:])``.
    """
    return resolve(comm).allgatherv(
        buf, counts, out=out, algorithm=algorithm, timeout=timeout
    )


def alltoall(
    buf: Any,
    comm: Any = None,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Swap equal blocks of axis 0: block i goes to rank i.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank, whose axis 0 is as long as
        a multiple of the number of ranks.
    comm
        The communicator.
    out
        Where the blocks go, of the shape of ``buf`` and with memory of its own; by
        default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        Of the shape of ``buf``: block i is that of rank i.
    """
    return resolve(comm).alltoall(buf, out=out, algorithm=algorithm, timeout=timeout)


def alltoallv(
    buf: Any,
    comm: Any = None,
    counts: Any = None,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Swap blocks of axis 0 of any lengths.

    Parameters
    ----------
    buf
        An array whose axis 0 has a block for every rank, in their order.
    comm
        The communicator.
    counts
        How many rows go to each rank; the ranks tell each other, which costs a small
        allgather. Or a table that is the same on every rank, which costs nothing:
        ``counts[i][j]`` rows go from rank i to rank j.
    out
        Where the blocks go, with memory of its own; by default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        The blocks that came, in the order of the ranks.
    """
    return resolve(comm).alltoallv(
        buf, counts, out=out, algorithm=algorithm, timeout=timeout
    )


def barrier(
    comm: Any = None,
    *,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> None:
    """Wait until every rank has come here.

    Parameters
    ----------
    comm
        The communicator.
    algorithm, timeout
        See the module.
    """
    resolve(comm).barrier(algorithm=algorithm, timeout=timeout)
