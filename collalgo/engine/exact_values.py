"""The elements of floats as limbs, by which any algorithm adds them exactly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.reduction import limbs
from collalgo.engine.dtypes import FLOAT8, kind_of

#: The first limb of each dtype, and that of its infinities and NaNs, above all values.
WINDOWS = {
    **dict.fromkeys(("float16", *FLOAT8), (21, 23)),
    **dict.fromkeys(("bfloat16", "float32", "complex64"), (19, 26)),
    **dict.fromkeys(("float64", "complex128"), (0, limbs.ALL_LIMBS - 1)),
}

#: The bits of a double that a float has no room for.
REST = np.uint64((1 << 29) - 1)


def parts_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """All elements as doubles, complex ones by their parts."""
    if values.dtype.kind == "c":
        part = np.dtype(f"f{bytes_of_part(values.dtype)}")
        own = part.newbyteorder(values.dtype.byteorder)
        values = np.ascontiguousarray(values).view(own)
    return np.ascontiguousarray(values, np.float64).ravel()


def bytes_of_part(dtype: np.dtype[Any]) -> int:
    """The bytes of a real number of a dtype."""
    return dtype.itemsize // (1 + (dtype.kind == "c"))


def sums_of(
    table: NDArray[np.int64], low: int, dtype: np.dtype[Any], divisor: int = 0
) -> Any:
    """The sums in limbs, which are changed, rounded to a dtype once.

    A divisor other than 0 divides them, as the kernels of the dtype do.
    """
    special, short = WINDOWS[kind_of(dtype)][1], bytes_of_part(dtype) < 8
    return rounded(limbs.totals(table, low, special, short), dtype, divisor)


def rounded(totals: NDArray[np.float64], dtype: np.dtype[Any], divisor: int) -> Any:
    """Sums rounded to a dtype; those of a dtype shorter than a double are odd."""
    nbytes = bytes_of_part(dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if nbytes < 8:
            if nbytes < 4 and not divisor:
                bits = totals.view(np.uint64)
                totals = ((bits | ((bits & REST) + REST)) & ~REST).view(np.float64)
            totals = totals.astype(np.float32)
        if divisor:
            totals = totals / totals.dtype.type(divisor)
        if dtype.kind == "c":
            return totals.view(dtype)
        found = totals.astype(dtype)
    return found + dtype.type(0)  # a zero is positive


class Limbs:
    """Sums of elements in all limbs of their dtype, for calls that add integers.

    Parameters
    ----------
    dtype
        The dtype of the elements.
    divisor
        The divisor of the sums; 0 for none.

    Attributes
    ----------
    op : str
        The op of the limbs.
    """

    op, reproducible = "sum", False

    def __init__(self, dtype: np.dtype[Any], divisor: int):
        self._dtype, self._divisor = dtype, divisor
        self._low, self._special = WINDOWS[kind_of(dtype)]
        self._is_complex = dtype.kind == "c"

    def empty(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array for the limbs of an array of this shape."""
        count = self._special + 1 - self._low
        return np.empty((*shape, count * (1 + self._is_complex)), np.int64)

    def widen(self, source: NDArray[Any], wide: NDArray[Any]) -> None:
        """Fill in the limbs of this rank's elements."""
        wide[...] = 0
        limbs.add(self._table(wide), self._low, self._special, parts_of(source))

    def narrow(self, wide: NDArray[Any], target: NDArray[Any]) -> None:
        """Round the sums of all ranks."""
        found = sums_of(self._table(wide), self._low, self._dtype, self._divisor)
        np.copyto(target, found.reshape(target.shape))

    def _table(self, wide: NDArray[Any]) -> NDArray[Any]:
        columns = self._special + 1 - self._low
        return wide.reshape(wide.size // columns, columns)


class GrowingLimbs:
    """Sums of elements in the limbs that their addends have bits in.

    Parameters
    ----------
    count
        The number of elements.
    dtype
        Their dtype.

    Attributes
    ----------
    table : array of int64
        A row of limbs for each real number.
    low, high : int
        The first and the last limb; ``low > high`` if all sums are zero.
    """

    def __init__(self, count: int, dtype: np.dtype[Any]):
        self._dtype, self._special = dtype, WINDOWS[kind_of(dtype)][1]
        self.low, self.high, self._added = limbs.ALL_LIMBS, -1, 0
        self.table = np.zeros((count * (1 + (dtype.kind == "c")), 0), np.int64)

    def add(self, values: NDArray[Any]) -> None:
        """Add elements of the dtype."""
        parts = parts_of(values)
        self._include(*limbs.window(parts, self._special))
        if self._added == limbs.ADDENDS:
            self.carry()
        limbs.add(self.table, self.low, self._special, parts)
        self._added += 1

    def carry(self) -> None:
        """Move all carries on, so that the limbs count as those of one addend."""
        self._added = 1
        most = limbs.carry(self.table, self.low, self._special)
        if most >> limbs.BITS and self.high < self._special - 1:
            self._include(self.low, self.high + 1)
            limbs.carry(self.table, self.low, self._special)

    def within(self, low: int, high: int) -> "GrowingLimbs":
        """A copy that includes the limbs from ``low`` to ``high``."""
        found = GrowingLimbs(0, self._dtype)
        found.table, found.low, found.high = self.table.copy(), self.low, self.high
        found._include(low, high)
        return found

    def value(self) -> NDArray[Any]:
        """The sums, rounded once."""
        found: NDArray[Any] = sums_of(self.table.copy(), self.low, self._dtype)
        return found

    def _include(self, first: int, last: int) -> None:
        """Grow to the limbs from ``first`` to ``last``, if there are any."""
        low, high = min(first, self.low), max(last, self.high)
        if first > last or (low, high) == (self.low, self.high):
            return
        table = np.zeros((len(self.table), high + 1 - low), np.int64)
        if self.low <= self.high:
            table[:, self.low - low : self.high + 1 - low] = self.table
        self.table, self.low, self.high = table, low, high


class OneZero:
    """Elements with one zero and one NaN, of which an extreme has the same bits always.

    Parameters
    ----------
    dtype
        The dtype of the elements.
    op
        ``"min"`` or ``"max"``.
    """

    reproducible = False

    def __init__(self, dtype: np.dtype[Any], op: str):
        self.op, self._dtype = op, dtype

    def empty(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array for the elements of an array of this shape."""
        return np.empty(shape, self._dtype)

    def widen(self, source: NDArray[Any], canonical: NDArray[Any]) -> None:
        """Fill in the elements of this rank, with positive zeros."""
        np.add(source, self._dtype.type(0), out=canonical)
        canonical[np.isnan(canonical)] = np.nan

    def narrow(self, canonical: NDArray[Any], target: NDArray[Any]) -> None:
        """Write the result."""
        np.copyto(target, canonical)
