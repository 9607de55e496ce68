"""Reductions of elements of another dtype than that of the arrays of the call.

These are means of integers, whose sums may exceed their dtype, and reductions of
elements whose bytes are not in the order of this machine.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.exact_values import Limbs, OneZero
from collalgo.engine.reduction import (
    INVARIANT_MEAN,
    SPLIT_MEAN,
    WIDE_MEAN,
    invariant_op,
    op_of,
)


class IntegerMean:
    """The sums from which a mean of integers is made, which cannot overflow.

    Integers of up to 32 bits are summed in 64 bits. Those of 64 bits are divided by the
    number of ranks before: the mean is the sum of the quotients, and of the remainders
    the sum divided by that number. Both are rounded down.

    Parameters
    ----------
    dtype
        The dtype of the integers.
    size
        The number of ranks.

    Attributes
    ----------
    op : str
        The op of the sums.
    reproducible : object
        The argument of the call that makes them.
    """

    def __init__(self, dtype: np.dtype[Any], size: int, reproducible: Any):
        self.size, self.reproducible = size, reproducible
        self.op = SPLIT_MEAN if dtype.itemsize == 8 else WIDE_MEAN
        self._dtype = np.dtype(f"{dtype.kind}8")

    def empty(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array for the summands of an array of this shape."""
        parts = (2,) if self.op is SPLIT_MEAN else ()
        return np.empty((*shape, *parts), self._dtype)

    def widen(self, source: NDArray[Any], wide: NDArray[Any]) -> None:
        """Fill in the summands of this rank."""
        if self.op is SPLIT_MEAN:
            np.divmod(source, self.size, out=(wide[..., 0], wide[..., 1]))
        else:
            np.copyto(wide, source)

    def narrow(self, wide: NDArray[Any], target: NDArray[Any]) -> None:
        """Make the mean of the sums of all ranks."""
        if self.op is SPLIT_MEAN:
            np.add(wide[..., 0], wide[..., 1] // self.size, out=target)
        else:
            np.copyto(target, wide, casting="unsafe")


class NativeOrder:
    """The elements in the order of this machine's bytes, with the same op."""

    def __init__(self, dtype: np.dtype[Any], op: Any, reproducible: Any):
        self.op, self.reproducible = op, reproducible
        self._dtype = dtype.newbyteorder("=")

    def empty(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array for the elements of an array of this shape."""
        return np.empty(shape, self._dtype)

    def widen(self, source: NDArray[Any], native: NDArray[Any]) -> None:
        """Fill in the elements of this rank."""
        np.copyto(native, source)

    def narrow(self, native: NDArray[Any], target: NDArray[Any]) -> None:
        """Write the result in the order of the arrays of the call."""
        np.copyto(target, native)


Conversion = IntegerMean | NativeOrder | Limbs | OneZero


def conversion_of(
    op: Any, source: NDArray[Any], size: int, caller: str, reproducible: Any
) -> Conversion | None:
    """How the ranks reduce arrays whose elements have to be converted, or None."""
    if isinstance(source, Shadow):
        return None
    op = op_of(op, caller)
    if op == "avg" and source.dtype.kind in "iu":
        return IntegerMean(source.dtype, size, reproducible)
    converted = source.dtype.kind in "iufcmM" and not source.dtype.isnative
    return NativeOrder(source.dtype, op, reproducible) if converted else None


def invariant_conversion(
    op: Any, source: NDArray[Any], size: int, caller: str, at_once: bool
) -> Conversion | None:
    """How the ranks reduce to the same bits whatever their number and order, or None.

    Parameters
    ----------
    op, source, size, caller
        As of :func:`conversion_of`.
    at_once
        Whether the algorithm combines all contributions at once.

    Raises
    ------
    TypeError
        If the dtype has no such op.
    """
    if isinstance(source, Shadow):
        return None
    op, dtype = op_of(op, caller), source.dtype
    invariant = invariant_op(op, dtype, caller)
    if op in ("min", "max") and dtype.kind not in "biumM":
        return OneZero(dtype, op)
    if at_once or invariant is op:
        return None
    return Limbs(dtype, size if invariant == INVARIANT_MEAN else 0)
