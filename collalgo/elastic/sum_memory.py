"""The memory of sums over shards, which the next sums use again."""

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from collalgo.elastic.tree_sums import Numbers

#: Allocates an array of some length and dtype, in a heap that the other ranks read
#: without a copy.
Allocate = Callable[[int, Any], Numbers]

#: Bytes of the memory that is kept between two sums, and of one result that is kept.
KEPT_BYTES = 64 << 20

#: Results of a form that are kept: a loop holds that of its last step while it makes
#: the next.
KEPT_RESULTS = 2

#: The alignment of arrays in memory, in bytes.
ALIGNMENT = 64


def references(arrays: list[Numbers]) -> list[int]:
    """The references to each of some arrays, with those of the list and of this."""
    return [getrefcount(each) for each in arrays]


#: The references to an array that is only in a list: versions of Python count others.
(UNUSED,) = references([np.empty(0)])


class Memory:
    """Memory for the arrays of one sum after the other.

    New memory for each sum would be mapped again, longer than the additions take.

    Parameters
    ----------
    allocate
        Allocates it.
    """

    def __init__(self, allocate: Allocate) -> None:
        self._allocate, self._kept = allocate, np.empty(0, np.uint8)
        self._used = 0

    def array(self, count: int, dtype: np.dtype[Any]) -> Numbers:
        """An array until the next :meth:`reuse`."""
        begin, nbytes = self._used, count * dtype.itemsize
        self._used += -(-nbytes // ALIGNMENT) * ALIGNMENT
        if self._used > self._kept.size:
            return np.empty(count, dtype)
        return self._kept[begin : begin + nbytes].view(dtype)

    def reuse(self) -> None:
        """Let the next sum have the memory of this one, unless it is too much."""
        if self._kept.size < self._used <= KEPT_BYTES:
            self._kept = self._allocate(self._used, np.uint8)
        self._used = 0


class Results:
    """Arrays for the results of sums, which are their callers' own.

    An array is used again once nothing else refers to it. It is not in a heap, whose
    memory forked children do not have. The arrays of the forms that were made last are
    kept, in all as much as the largest of one form.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, np.dtype[Any]], list[Numbers]] = {}

    def take(self, length: int, dtype: np.dtype[Any]) -> Numbers:
        """An array to which nothing else refers."""
        kept = self._kept.get((length, dtype), [])
        counts = references(kept)
        if UNUSED in counts:
            return kept[counts.index(UNUSED)][:]
        made = np.empty(length, dtype)
        if made.nbytes <= KEPT_BYTES:
            self._keep(made)
        return made[:]

    def _keep(self, made: Numbers) -> None:
        """Keep an array as the latest, and drop the earliest of too many."""
        form = made.size, made.dtype
        self._kept[form] = [made, *self._kept.pop(form, [])][:KEPT_RESULTS]
        total = sum(each.nbytes for kept in self._kept.values() for each in kept)
        while total > KEPT_RESULTS * KEPT_BYTES:
            earliest = self._kept.pop(next(iter(self._kept)))
            total -= sum(each.nbytes for each in earliest)
