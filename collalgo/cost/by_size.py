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
    """Values for all sizes; they are few, and looked up instead of computed.

    Parameters
    ----------
    last
        The last size of each value but that of the largest sizes, in order.
    values
        The values.
    """

    def __init__(self, last: list[int], values: list[Value]):
        self._last, self._values = last, values

    @classmethod
    def from_table(cls, values: NDArray[Any]) -> "BySize[Any]":
        """A value for each of :data:`BORDERS`, the last size that has it."""
        last = np.flatnonzero(values[1:] != values[:-1])
        return cls(BORDERS[last].tolist(), values[[*last, -1]].tolist())

    @classmethod
    def from_borders(
        cls, borders: list[int], value_at: Callable[[int], Value]
    ) -> "BySize[Value]":
        """The values of sizes that have that of the border below, the first 0."""
        last: list[int] = []
        values = [value_at(borders[0])]
        for border in borders[1:]:
            value = value_at(border)
            if value != values[-1]:
                last.append(border - 1)
                values.append(value)
        return cls(last, values)

    def at(self, nbytes: int) -> tuple[Value, float, float]:
        """The value of a size, and the sizes for which it holds: least, and limit."""
        number = bisect_left(self._last, nbytes)
        least = self._last[number - 1] + 1 if number else 0
        limit = self._last[number] + 1 if number < len(self._last) else math.inf
        return self._values[number], least, limit
