"""Exact sums of several contributions of each rank."""

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collalgo.base.arguments import shown
from collalgo.base.integers import shape_of
from collalgo.comm.current import runner_of
from collalgo.comm.error_of_rank import error_of_rank
from collalgo.comm.functions.reducing import allreduce
from collalgo.comm.types import Communicator
from collalgo.engine.call import AlgorithmChoice
from collalgo.engine.dtypes import dtype_code, dtype_text
from collalgo.engine.exact_conversion import exact_array
from collalgo.engine.exact_values import GrowingLimbs
from collalgo.engine.reduction import invariant_op
from collalgo.errors import MismatchError

if TYPE_CHECKING:
    import mpi4py.MPI

    from collalgo.comm.runner import Runner

NAME = "ExactSum"


class ExactSum:
    """The exact sum of arrays, of any number on each rank.

    Parameters
    ----------
    shape
        The shape of the arrays.
    dtype
        Their dtype: floats of up to 64 bits, or complex numbers of two of them; sums
        have the byte order of the machine.

    Raises
    ------
    TypeError
        If the dtype has no exact sums.

    Notes
    -----
    Where a batch is divided into microbatches, add the gradient of each: the bits of
    the result are the same for any number of ranks and any distribution of the
    microbatches. The result is the exact sum, rounded once, as that of
    :func:`~collalgo.allreduce` with ``reproducible="invariant"``, which says how
    infinities, NaNs and zeros are added.

    An element takes 8 bytes for each 48 bits that any addends span, usually 16 to 24 in
    all. The ranks first agree on these bits.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> microbatches = np.random.default_rng(1).standard_normal((24, 3))
    >>> def total(comm):
    ...     mine = collalgo.ExactSum(3, float)
    ...     for gradient in microbatches[comm.rank :: comm.size]:
    ...         mine.add(gradient)
    ...     return mine.allreduce(comm).tobytes()
    >>> len({bits for n in (1, 2, 3, 5) for bits in collalgo.threads(total, n)})
    1
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: DTypeLike):
        self.dtype = np.dtype(dtype).newbyteorder("=")
        self.shape = _shape(shape)
        if invariant_op("sum", self.dtype, NAME) == "sum":
            raise TypeError(
                f"{NAME}: sums of {self.dtype} are exact anyway; add them in an array"
            )
        self._count = math.prod(self.shape)
        self._limbs = GrowingLimbs(self._count, self.dtype)

    def __repr__(self) -> str:
        return f"<ExactSum of {self.dtype} of shape {self.shape}>"

    def add(self, array: Any) -> None:
        """Add an array of the shape.

        Parameters
        ----------
        array
            An array of the dtype, or of one whose values all are values of it; also
            numbers of Python, in lists too, which are rounded to the dtype.

        Raises
        ------
        TypeError
            If the dtype does not hold all values of that of the array, or it is a
            masked array, or on a device.
        ValueError
            If it has another shape.
        """
        values = exact_array(array, self.dtype, f"{NAME}.add")
        if values.shape != self.shape:
            raise ValueError(
                f"ExactSum.add: the array has the shape {values.shape}, but the sum "
                f"{self.shape}; pass arrays of the shape of the sum"
            )
        self._limbs.add(values)

    def value(self) -> NDArray[Any]:
        """The sum of the arrays of this rank, rounded once, in a new array."""
        return self._limbs.value().reshape(self.shape)

    def allreduce(
        self,
        comm: "Communicator | mpi4py.MPI.Comm | None" = None,
        *,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> NDArray[Any]:
        """The sum of the arrays of all ranks, rounded once, as a new array on each.

        The sum of this rank stays as it is, and can grow further.

        Parameters
        ----------
        comm
            The communicator.
        algorithm
            As of :func:`collalgo.allreduce`; it adds integers.
        timeout
            The limit in seconds for each of two calls.

        Raises
        ------
        MismatchError
            On all ranks, if their dtypes or numbers of elements differ.
        """
        self._limbs.carry()
        low, high = self._agreed(cast("Runner", runner_of(comm)), timeout)
        found = self._limbs.within(low, high)
        allreduce(found.table, comm, algorithm=algorithm, timeout=timeout)
        return found.value().reshape(self.shape)

    def _agreed(self, runner: "Runner", timeout: float | None) -> tuple[int, int]:
        """The first and the last limb of all ranks."""
        name, code = f"{NAME}.allreduce", dtype_code(self.dtype)
        mine = np.array([code, self._count, self._limbs.low, self._limbs.high])
        facts = runner.exchange(mine, name, timeout)
        differs = np.flatnonzero((facts[:, :2] != facts[0, :2]).any(axis=1))
        if len(differs):
            rank = int(differs[0])
            ours, theirs = (
                f"{facts[r, 1]} elements of {dtype_text(facts[r, 0])}"
                for r in (rank, 0)
            )
            text = (
                f"rank {rank} has a sum of {ours} but rank 0 one of {theirs}; use the "
                "same shape and dtype on all ranks"
            )
            raise error_of_rank(MismatchError, runner, name, rank, text)
        return int(facts[:, 2].min()), int(facts[:, 3].max())


def _shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape, checked, that an array can have."""
    lengths = shape_of(shape, NAME)
    try:
        np.broadcast_to(np.False_, lengths)
    except ValueError as error:
        raise ValueError(
            f"{NAME}: no array has the shape {shown(lengths)} ({error}); pass fewer or "
            "shorter axes"
        ) from None
    return lengths
