"""Collectives that reduce."""

from functools import partial
from typing import TYPE_CHECKING

from cython.cimports.collalgo._kernels.comm.arg_reductions import is_arg_reduction
from cython.cimports.collalgo._kernels.comm.reducing import runner_of

from collalgo._kernels.comm.arg_reductions import reduce_arg
from collalgo._kernels.comm.trees import allreduce_tree, reduce_tree
from collalgo.comm.background import in_background
from collalgo.comm.types import Array, ArrayLike, Communicator, OpLike, Tree
from collalgo.engine.call import AlgorithmChoice, Reproducible

if TYPE_CHECKING:
    import mpi4py.MPI


def allreduce(
    buf: Tree,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    *,
    out: Tree | None = None,
    algorithm: AlgorithmChoice = None,
    reproducible: Reproducible = False,
    timeout: float | None = None,
) -> Array:
    """Reduce the arrays of all ranks, element by element, at every rank.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank. Or a list,
        tuple or dictionary of arrays of any dtypes, or of further ones; the small ones
        of a dtype are reduced in one call.
    comm
        The communicator.
    op
        ``sum``, ``prod``, ``min``, ``max``, ``avg``, ``band``, ``bor``, ``bxor``,
        ``land``, ``lor``, ``lxor``, or an op of NumPy, mpi4py or torch. Floats of
        16 and 8 bits are combined in float32. A mean of integers is rounded down,
        and right although their sum exceeds their dtype; on a device it is refused.
        On elements of two fields, a value and an index, or on a pair of arrays of
        values and of indices: ``minloc``, ``maxloc``. ``argmin`` and ``argmax`` give
        the rank of the extreme value, in an array of int64 (``out``, or a new one);
        ``buf`` is unchanged, and an ``exscan`` gives rank 0 -1. On elements of any
        dtype: ``no_op`` and ``replace``, the first and the last contribution. Or any
        ufunc of NumPy, a function of two arrays, or an :class:`~collalgo.Op`, which
        also has compiled functions.
    out
        The array for the result, or arrays in the structure of ``buf``; by default
        ``buf``.
    algorithm, timeout
        See the module.
    reproducible
        With True, combine the contributions in the order of the ranks. The bits of
        the result then depend neither on the algorithm, nor the count, nor the
        machine. With ``"invariant"``, they do not depend on the number of the ranks
        and their order either: a ``sum`` of floats is the exact sum of the
        contributions, rounded once to their dtype, so its error is half a unit in
        the last place at most; ``avg`` is that sum, of short floats in float32,
        divided by the number of ranks. Intermediate results do not overflow, and
        subnormal numbers are kept. A sum beyond the greatest float is infinite, a
        zero positive, a NaN always the same; infinities of both signs make one.
        ``min`` and ``max`` treat zeros and NaNs alike, and ops that are never
        rounded run as usual. Other ops of floats, and arrays on devices, are refused
        by TypeError. By default algorithms are those of True. Any other one may be
        named, but then messages have limbs of integers for each element: 24 bytes
        for float8 and float16, 64 for bfloat16 and float32, 360 for float64. See
        :class:`~collalgo.ExactSum` for several contributions of a rank.

    Returns
    -------
    array
        ``buf``, or ``out`` if given, with the result: the same bits on every rank. Of
        ``argmin`` and ``argmax`` a new array of int64, unless ``out`` is given.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> def last_rank(comm):
    ...     return collalgo.allreduce(np.array([comm.rank]), comm, "max")
    >>> collalgo.threads(last_rank, size=3)
    [array([2]), array([2]), array([2])]
    >>> def of_a_model(comm):
    ...     gradients = {"weights": np.ones((2, 2)), "bias": np.ones(2, "float32")}
    ...     return collalgo.allreduce(gradients, comm)["bias"]
    >>> collalgo.threads(of_a_model, size=2)
    [array([2., 2.], dtype=float32), array([2., 2.], dtype=float32)]
    """
    if is_arg_reduction(buf, op):
        call = partial(
            allreduce, algorithm=algorithm, reproducible=reproducible, timeout=timeout
        )
        return reduce_arg(call, runner_of(comm), buf, op, out)
    if isinstance(buf, (list, tuple, dict)):
        return allreduce_tree(
            runner_of(comm), buf, op, out, algorithm, reproducible, timeout
        )
    return runner_of(comm).allreduce(buf, op, out, algorithm, reproducible, timeout)


allreduce_async = in_background(allreduce)


def reduce(
    buf: Tree,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    root: int = 0,
    *,
    out: Tree | None = None,
    algorithm: AlgorithmChoice = None,
    reproducible: Reproducible = False,
    timeout: float | None = None,
) -> Array:
    """Reduce the arrays of all ranks, element by element, at the root.

    Parameters
    ----------
    buf
        An array of the same dtype and number of elements on every rank; overwritten
        at the root unless ``out`` is given, unchanged elsewhere. Or several arrays, see
        :func:`allreduce`.
    comm
        The communicator.
    op
        See :func:`allreduce`.
    root
        The rank that receives the result.
    out
        The array for the result at the root, or arrays in the structure of ``buf``; by
        default ``buf``.
    algorithm, timeout
        See the module.
    reproducible
        See :func:`allreduce`.

    Returns
    -------
    array or None
        The result at the root, as of :func:`allreduce`; None elsewhere.
    """
    if is_arg_reduction(buf, op):
        call = partial(
            reduce,
            root=root,
            algorithm=algorithm,
            reproducible=reproducible,
            timeout=timeout,
        )
        is_root = runner_of(comm).rank == runner_of(comm).root_of(root, "reduce")
        return reduce_arg(call, runner_of(comm), buf, op, out, is_root)
    if isinstance(buf, (list, tuple, dict)):
        return reduce_tree(
            runner_of(comm), buf, op, root, out, algorithm, reproducible, timeout
        )
    return runner_of(comm).reduce(buf, op, root, out, algorithm, reproducible, timeout)


reduce_async = in_background(reduce)


def scan(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
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
        The array for the result; by default ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        ``buf``, or ``out`` if given, with the result. Of ``argmin`` and ``argmax`` a
        new array of int64, unless ``out`` is given.
    """
    if is_arg_reduction(buf, op):
        call = partial(scan, algorithm=algorithm, timeout=timeout)
        return reduce_arg(call, runner_of(comm), buf, op, out)
    return runner_of(comm).prefix(False, buf, op, out, algorithm, timeout)


scan_async = in_background(scan)


def exscan(
    buf: ArrayLike,
    comm: Communicator | mpi4py.MPI.Comm | None = None,
    op: OpLike = "sum",
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Array:
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
        The array for the result; by default ``buf``.
    algorithm, timeout
        See the module.

    Returns
    -------
    array
        ``buf``, or ``out`` if given, with the result. On rank 0 it is unchanged. Of
        ``argmin`` and ``argmax`` a new array of int64, unless ``out`` is given, which
        is -1 on rank 0.
    """
    if is_arg_reduction(buf, op):
        call = partial(exscan, algorithm=algorithm, timeout=timeout)
        return reduce_arg(call, runner_of(comm), buf, op, out)
    return runner_of(comm).prefix(True, buf, op, out, algorithm, timeout)


exscan_async = in_background(exscan)
