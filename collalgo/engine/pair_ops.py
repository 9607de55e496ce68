"""Ops on pairs of a value and its index, and those that choose a rank."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo.engine.user_op import Op

Pairs = NDArray[Any]


class PairOp(Op):
    """An op on elements of two fields, a value and an index."""

    def reduction(self, dtype: np.dtype[Any]) -> Reduction:
        """The kernel for a dtype of two fields."""
        if len(dtype.names or ()) != 2:
            raise TypeError(
                f"op {self.name!r} needs values with indices, not {dtype}; pass a pair "
                "(values, indices), or elements of a dtype as [('value', 'f8'), "
                "('index', 'i8')]"
            )
        _check_fields(dtype, self.name)
        return super().reduction(dtype)


def _check_fields(dtype: np.dtype[Any], op: str) -> None:
    """Check that an op can compare two fields of a dtype, and write each."""
    fields: Any = dtype.fields
    (first, start), (second, place) = sorted(
        (fields[name][:2] for name in dtype.names or ()),
        key=lambda field: field[1],
    )
    for field in (first, second):
        if not _is_ordered(field):
            raise TypeError(f"op {op!r} cannot compare elements of {field}, in {dtype}")
    if start + first.itemsize > place:
        raise TypeError(
            f"op {op!r} needs two fields that share no memory, but those of {dtype} "
            "overlap; pass a dtype with each at its own offset"
        )


def _extreme(is_better: np.ufunc, left: Pairs, right: Pairs) -> Pairs:
    """The pairs of the better values; of equal values that of the smaller index."""
    value, index = left.dtype.names or ()
    a, b = left[value], right[value]
    with np.errstate(invalid="ignore"):  # which some dtypes report of NaN
        was_nan, is_nan = np.not_equal(a, a), np.not_equal(b, b)
        # As in numpy.argmin, NaN is the best value.
        better = np.where(is_nan | was_nan, is_nan & ~was_nan, is_better(b, a))
        equal = (a == b) | (is_nan & was_nan)
    np.copyto(left, right, where=better | (equal & (right[index] < left[index])))
    return left


def minloc(left: Pairs, right: Pairs) -> Pairs:
    """The pairs of the lesser values."""
    return _extreme(np.less, left, right)


def maxloc(left: Pairs, right: Pairs) -> Pairs:
    """The pairs of the greater values."""
    return _extreme(np.greater, left, right)


def check_values(dtype: np.dtype[Any], op: str, caller: str) -> None:
    """Check that an op can compare values of a dtype."""
    if not _is_ordered(dtype):
        raise TypeError(f"{caller}: op {op!r} cannot compare elements of {dtype}")


def _is_ordered(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype can be compared."""
    try:
        found = np.less.resolve_dtypes((dtype, dtype, None))[2]
    except TypeError:
        return False
    return dtype.subdtype is None and found == np.bool_


def no_op(left: Pairs, _right: Pairs) -> Pairs:
    """The contribution of the first rank."""
    return left


def replace(_left: Pairs, right: Pairs) -> Pairs:
    """The contribution of the last rank."""
    return right


#: By the names of MPI.
PAIR_OPS = {
    "minloc": PairOp(minloc, commute=True),
    "maxloc": PairOp(maxloc, commute=True),
    "replace": Op(replace),
    "no_op": Op(no_op),
}

#: The ops of the rank with the extreme value; calls add the ranks to plain values.
ARG_OPS = {
    "argmin": PairOp(minloc, commute=True, name="argmin"),
    "argmax": PairOp(maxloc, commute=True, name="argmax"),
}
