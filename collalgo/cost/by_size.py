"""Values that depend on the size of a call, as a table of borders."""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from collalgo.base.distinct import distinct

Value = TypeVar("Value")

#: The sizes in bytes where values may change: 0, and eight for each power of two.
BORDERS = distinct(
    np.append(0, np.ceil(2.0 ** np.arange(0, 42, 0.125)).astype(np.int64))
)


class BySize(Generic[Value]):
    """Values for all sizes; a size between two borders has that of the upper one.

    So there are few, and a size is looked up instead of computed.

    Parameters
    ----------
    values
        A row of figures for each of :data:`BORDERS`.
    make
        Makes the value of a row.
    """

    def __init__(self, values: NDArray[Any], make: Callable[[Any], Value]):
        rows = np.asarray(values).reshape(len(BORDERS), -1)
        last = np.flatnonzero(np.any(rows[1:] != rows[:-1], axis=1))
        self._last: list[float] = BORDERS[last].tolist()
        self._values = [make(row) for row in values[[*last, -1]].tolist()]

    def at(self, nbytes: int) -> tuple[Value, float, float]:
        """The value of a size, and the sizes for which it holds: least, and limit."""
        number = bisect_left(self._last, nbytes)
        least = self._last[number - 1] + 1 if number else 0
        limit = self._last[number] + 1 if number < len(self._last) else math.inf
        return self._values[number], least, limit
