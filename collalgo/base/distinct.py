"""Distinct values of an array.

``numpy.unique`` without further results imports ``numpy.ma``: 10 ms in every rank.
"""

import numpy as np
from numpy.typing import NDArray


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct integers of an array of any shape, ascending."""
    ordered = np.sort(values, axis=None)
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
