"""Topology-aware collective communication: algorithms written once, as schedules.

>>> import collalgo
>>> import numpy as np
>>> collalgo.threads(lambda comm: collalgo.allreduce(np.ones(2), comm), size=4)[0]
array([4., 4.])

What all collectives have in common
-----------------------------------
Arrays are NumPy arrays or anything with the buffer protocol or DLPack, in the memory
of the host. Results go into the first array unless ``out=`` is given; arrays that are
not contiguous are packed and unpacked. ``comm`` is a :class:`Communicator`, one of
mpi4py, or None for the world of :func:`init`. ``algorithm`` is None for the cheapest,
a name, a list of names in the order of preference, or a function of a :class:`Group`
that is proved before it runs. ``timeout`` is in seconds. All ranks must make the same
calls in the same order; these errors are raised on every rank that is in a call:

MismatchError
    The ranks have passed different counts, dtypes, ops, roots or algorithms.
CollectiveTimeout
    Some rank was not there in time.
PeerFailed
    A rank has died or left.

and these before anything is sent:

TypeError, ValueError
    An argument will not do; the message says which and why.
AlgorithmNotApplicable
    The algorithm that was asked for cannot do this call.
CommunicatorClosed
    The communicator was closed, or made before the process forked.
"""

from collections.abc import Sequence
from typing import Any

from collalgo._version import __version__
from collalgo.algorithms import ALGORITHMS
from collalgo.communicator import Communicator
from collalgo.errors import (
    AlgorithmNotApplicable,
    BootstrapError,
    CollalgoError,
    CollectiveTimeout,
    CommunicatorClosed,
    MismatchError,
    PeerFailed,
    ScheduleError,
)
from collalgo.launch.local import spawn, threads
from collalgo.programs import AlgorithmChoice
from collalgo.schedule import Group, recv, recv_reduce, send, together
from collalgo.select import Selection, select
from collalgo.verify import Proof, verify
from collalgo.world import init, resolve

__all__ = [
    "ALGORITHMS",
    "AlgorithmNotApplicable",
    "BootstrapError",
    "CollalgoError",
    "CollectiveTimeout",
    "Communicator",
    "CommunicatorClosed",
    "Group",
    "MismatchError",
    "PeerFailed",
    "Proof",
    "ScheduleError",
    "Selection",
    "__version__",
    "allgather",
    "allgatherv",
    "allreduce",
    "barrier",
    "broadcast",
    "init",
    "recv",
    "recv_reduce",
    "reduce",
    "reduce_scatter",
    "select",
    "send",
    "spawn",
    "threads",
    "together",
    "verify",
]


def allreduce(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
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
        buf, op, out=out, algorithm=algorithm, timeout=timeout
    )


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


def reduce(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    root: int = 0,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
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

    Returns
    -------
    array or None
        The result at the root, None elsewhere.
    """
    return resolve(comm).reduce(
        buf, op, root, out=out, algorithm=algorithm, timeout=timeout
    )


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


def reduce_scatter(
    buf: Any,
    comm: Any = None,
    op: Any = "sum",
    counts: Sequence[int] | None = None,
    *,
    out: Any = None,
    algorithm: AlgorithmChoice = None,
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

    Returns
    -------
    array
        Of shape ``(counts[rank], *buf.shape[1:])``.
    """
    return resolve(comm).reduce_scatter(
        buf, op, counts, out=out, algorithm=algorithm, timeout=timeout
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
