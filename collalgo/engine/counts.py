"""The numbers of rows that calls with uneven blocks are given, checked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from collalgo.base.arguments import shown
from collalgo.base.integers import INT64_MAX, integer
from collalgo.base.units import counted
from collalgo.engine.arrays import Array, row_size

#: Types of iterables that are not numbers in the order of the ranks.
NO_ROWS = (Set, Mapping, str, bytes, bytearray)


def check_counts(counts: Any, size: int, caller: str, of: str = "rank") -> list[int]:
    """The numbers of rows of all ranks, checked, as a list."""
    if (  # as most are: the rest takes longer than a short call
        type(counts) in (list, tuple)
        and len(counts) == size
        and set(map(type, counts)) == {int}
        and min(counts) >= 0
        and max(counts) <= INT64_MAX
    ):
        return [*counts]
    wanted = f"{counted(size, 'number')} of rows, one for each {of}"
    if not _is_row(counts):
        raise TypeError(f"{caller}: counts is {shown(counts)}; pass {wanted}")
    checked = [integer(count, "a count", caller, -INT64_MAX) for count in counts]
    if len(checked) != size:
        raise ValueError(f"{caller}: counts {shown(checked)} must be {wanted}")
    if (least := min(checked, default=0)) < 0:
        raise ValueError(
            f"{caller}: the count for {of} {checked.index(least)} is {least}; pass "
            f"{wanted}, none negative"
        )
    return checked


def _is_row(counts: Any) -> bool:
    """Whether these may be numbers in the order of the ranks."""
    if isinstance(counts, np.ndarray):
        return bool(counts.ndim)
    return isinstance(counts, Iterable) and not isinstance(counts, NO_ROWS)


def check_table(counts: Any, caller: str) -> Array:
    """Numbers of rows, or a table of them, as an array of int64."""
    if isinstance(counts, Iterator):
        counts = [*counts]
    if isinstance(counts, NO_ROWS):
        raise TypeError(
            f"{caller}: counts is {shown(counts)}; pass one number of rows for each "
            "rank, or one list for each"
        )
    try:
        array = counts if isinstance(counts, np.ndarray) else np.array(counts)
    except ValueError:
        raise ValueError(
            f"{caller}: counts {shown(counts)} are neither a list of numbers of rows "
            "nor a square table; pass one number for each rank, or one list for each"
        ) from None
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        # As they are, since NumPy rounds some.
        given = array if counts is array else np.array(counts, object)
        numbers = [integer(n, "a count", caller, -INT64_MAX) for n in given.flat]
        array = np.array(numbers, np.int64).reshape(given.shape)
    return array.astype(np.int64)


def elements_of(rows: Sequence[int], array: Array, caller: str) -> tuple[int, ...]:
    """The number of elements of each rank, from its number of rows."""
    each = row_size(array)
    total = sum(rows) * each * array.itemsize
    if total > INT64_MAX:
        what = f"counts add up to {sum(rows)} rows, that is {total} bytes"
        most = f"no call can have more than {INT64_MAX}"
        raise ValueError(f"{caller}: {what}, but {most}; pass fewer")
    return tuple([count * each for count in rows])
