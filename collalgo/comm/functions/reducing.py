"""Collectives that reduce."""

from collections.abc import Sequence
from typing import Any

from collalgo.comm.world import resolve
from collalgo.engine.call import AlgorithmChoice


def allreduce(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    reproducible: bool = False,
    timeout: float | None = None,
) -> Any:
    """Reduce the arrays of all ranks, element by element, at every rank.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank.
    comm
        The communicator.
    op
        ``sum``, ``prod``, ``min``, ``max``, ``avg``, ``band``, ``bor``, ``bxor``,
        ``land``, ``lor``, ``lxor``, or an op of NumPy, mpi4py or torch. Halves and
        quarters of precision are combined in float32; a mean of integers is rounded
        down.
    out
        Where the result goes; by default into ``buf``.
    algorithm, timeout
        See the module.
    reproducible
        Combine the contributions in the order of the ranks: the result has the bits
        of that sum whatever the algorithm, the number of elements or the machine.

    Returns
    -------
    array
        ``buf``, or ``out`` if given, with the result: the same bits on every rank.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> def last_rank(comm):
    ...     return collalgo.allreduce(np.array([comm.rank]), comm, "max")
    >>> collalgo.threads(last_rank, size=3)
    [array([2]), array([2]), array([2])]
    """
    return resolve(comm).allreduce(
        buf,
        op,
        out=out,
        algorithm=algorithm,
        reproducible=reproducible,
        timeout=timeout,
    )


def reduce(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    root: int = 0,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    reproducible: bool = False,
    timeout: float | None = None,
) -> Any:
    """Reduce the arrays of all ranks, element by element, at the root.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank; overwritten
        at the root unless ``out`` is given, unchanged elsewhere.
    comm
        The communicator.
    op
        See :func:`allreduce`.
    root
        The rank that gets the result.
    out
        Where the result goes at the root.
    algorithm, timeout
        See the module.
    reproducible
        See :func:`allreduce`.

    Returns
    -------
    array or None
        The result at the root, None elsewhere.
    """
    return resolve(comm).reduce(
        buf,
        op,
        root,
        out=out,
        algorithm=algorithm,
        reproducible=reproducible,
        timeout=timeout,
    )


def reduce_scatter(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    counts: Sequence[int] | None = None,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    reproducible: bool = False,
    timeout: float | None = None,
) -> Any:
    """Reduce the arrays of all ranks and leave each rank a block of axis 0.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank; unchanged.
    comm
        The communicator.
    op
        See :func:`allreduce`.
    counts
        The length of each rank's block; by default they differ by one at most, as
        with :func:`numpy.array_split`.
    out
        Where this rank's block goes; it may be that part of ``buf``. By default a new
        array.
    algorithm, timeout
        See the module.
    reproducible
        See :func:`allreduce`.

    Returns
    -------
    array
        Of shape ``(counts[rank], *buf.shape[1:])``.
    """
    return resolve(comm).reduce_scatter(
        buf,
        op,
        counts,
        out=out,
        algorithm=algorithm,
        reproducible=reproducible,
        timeout=timeout,
    )


def scan(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Reduce the arrays of the ranks from 0 up to each rank, element by element.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank.
    comm
        The communicator.
    op
        See :func:`allreduce`; not ``avg``.
    out
        Where the result goes; by default into ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        ``buf``, or ``out`` if given, with the result.
    """
    return resolve(comm).scan(buf, op, out=out, algorithm=algorithm, timeout=timeout)


def exscan(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Reduce the arrays of the ranks before each rank, element by element.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank.
    comm
        The communicator.
    op
        See :func:`allreduce`; not ``avg``.
    out
        Where the result goes; by default into ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        ``buf``, or ``out`` if given, with the result. On rank 0, which has nobody
        before it, it is left as it was.
    """
    return resolve(comm).exscan(buf, op, out=out, algorithm=algorithm, timeout=timeout)
