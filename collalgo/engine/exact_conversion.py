"""Values as arrays of another dtype, converted without rounding."""

from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.base.arguments import shown
from collalgo.engine.arrays import as_array
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.exact_values import bytes_of_part


def exact_array(value: Any, dtype: np.dtype[Any], caller: str) -> NDArray[Any]:
    """An array as one of a dtype that holds all its values; it may be the same.

    Numbers of Python, in lists too, are rounded to the dtype, as they have none.

    Raises
    ------
    TypeError
        If the dtype does not hold all values of that of the array, or it is a masked
        array, or on a device.
    """
    if isinstance(value, list | tuple):
        rows = [exact_array(each, dtype, caller) for each in value]
        return _joined(rows, dtype, caller)
    if isinstance(value, Number) and not isinstance(value, np.generic):
        return _rounded(value, dtype, caller)
    array = (
        np.asarray(value) if isinstance(value, np.generic) else as_array(value, caller)
    )
    if isinstance(array, Shadow):
        raise TypeError(
            f"{caller}: got an array on a device; pass a copy of it in host memory"
        )
    if not holds(dtype, array.dtype):
        raise TypeError(
            f"{caller}: got an array of {array.dtype}, not all of whose values are "
            f"values of {dtype}; pass x.astype({str(dtype)!r}) to convert them"
        )
    return array.astype(dtype, copy=False)


def holds(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Whether each value of another dtype is a value of a dtype of floats.

    NumPy also converts integers as long as these, of which most must be rounded.
    """
    is_long = other.kind in "iu" and other.itemsize >= bytes_of_part(dtype)
    return np.can_cast(other, dtype, "safe") and not is_long


def _rounded(value: Any, dtype: np.dtype[Any], caller: str) -> NDArray[Any]:
    """A number of Python as an array."""
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{caller}: {shown(value)} is not a value of {dtype} ({error}); pass an "
            "array or numbers of this dtype"
        ) from None


def _joined(
    rows: list[NDArray[Any]], dtype: np.dtype[Any], caller: str
) -> NDArray[Any]:
    """Arrays one after the other, along a new axis."""
    if len({row.shape for row in rows}) > 1:
        raise ValueError(
            f"{caller}: got a list of arrays of different shapes; pass an array"
        )
    return np.stack(rows) if rows else np.empty(0, dtype)
