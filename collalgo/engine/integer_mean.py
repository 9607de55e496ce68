"""Means of integers, which the ranks sum wider than in their dtype."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.engine.reduction import SPLIT_MEAN, WIDE_MEAN


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
    """

    def __init__(self, dtype: np.dtype[Any], size: int):
        self.size = size
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
