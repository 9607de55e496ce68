"""Collectives that move data to one rank or from it, unchanged."""

from collections.abc import Sequence
from typing import Any

from collalgo.comm.world import resolve
from collalgo.engine.call import AlgorithmChoice


def gather(
    buf: Any,
    comm: Any = None,
    root: int = 0,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Stack the arrays of all ranks at the root.

    Parameters
    ----------
    buf
        An array of the same dtype and shape on every rank.
    comm
        The communicator.
    root
        The rank that gets them.
    out
        Where the result goes at the root, of shape ``(size, *buf.shape)``; ``buf`` may
        be its part ``out[root]``. By default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array or None
        Of shape ``(size, *buf.shape)`` at the root, None elsewhere.
    """
    return resolve(comm).gather(
        buf, root, out=out, algorithm=algorithm, timeout=timeout
    )


def gatherv(
    buf: Any,
    comm: Any = None,
    counts: Sequence[int] | None = None,
    root: int = 0,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Join the arrays of all ranks on axis 0 at the root.

    Parameters
    ----------
    buf
        An array whose axis 0 may have another length on each rank.
    comm
        The communicator.
    counts
        The length of axis 0 on each rank; by default the ranks tell each other, which
        costs a small allgather.
    root
        The rank that gets them.
    out
        Where the result goes at the root, of shape ``(sum(counts), *buf.shape[1:])``;
        by default a new array.
    algorithm, timeout
        See the module.

    Returns
    -------
    array or None
        Of shape ``(sum(counts), *buf.shape[1:])`` at the root, None elsewhere.
    """
    return resolve(comm).gatherv(
        buf, counts, root, out=out, algorithm=algorithm, timeout=timeout
    )


def scatter(
    buf: Any,
    comm: Any = None,
    root: int = 0,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Give every rank its part of the array of the root.

    Parameters
    ----------
    buf
        At the root an array of shape ``(size, *shape)``; elsewhere one of ``shape`` and
        the same dtype, into which the part goes, or with ``out`` anything.
    comm
        The communicator.
    root
        The rank whose array it is.
    out
        Where this rank's part goes, of ``shape``; by default into ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        This rank's part: ``out`` if given, else ``buf``, and at the root the view
        ``buf[root]``.
    """
    return resolve(comm).scatter(
        buf, root, out=out, algorithm=algorithm, timeout=timeout
    )


def scatterv(
    buf: Any,
    comm: Any = None,
    counts: Sequence[int] | None = None,
    root: int = 0,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Any:
    """Give every rank some rows of the array of the root.

    Parameters
    ----------
    buf
        At the root all rows; elsewhere an array of as many rows as this rank is to
        get, into which they go, or with ``out`` anything.
    comm
        The communicator.
    counts
        The rows for each rank; by default the ranks tell each other, and the root
        keeps the rest, which costs a small allgather.
    root
        The rank whose array it is.
    out
        Where this rank's rows go; by default into ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        This rank's rows: ``out`` if given, else ``buf``, and at the root a view of its
        part of ``buf``.
    """
    return resolve(comm).scatterv(
        buf, counts, root, out=out, algorithm=algorithm, timeout=timeout
    )
