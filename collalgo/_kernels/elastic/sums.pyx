# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sums of neighbouring nodes of a tree, added as the tree adds them."""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from collalgo._kernels.elastic.array_forms cimport are_alike
from collalgo._kernels.engine.reduction.reduce cimport Reduction

cnp.import_array()

# Sums that become one at once at most: a tree has fewer levels.
cdef enum:
    MOST_MERGED = 64

# Bytes from which on an addition releases the GIL.
cdef enum:
    LONG_BYTES = 1 << 16


cdef class Sums:
    """Sums of neighbouring nodes, of which each is added once it is known.

    Parameters
    ----------
    merges : tuple of int
        For each node how many sums become part of the one before, itself included.
    length : int
        The elements of a node; the array of a sum may have further ones behind them.
    reduction : Reduction or None
        Adds elements; None for dtypes that only NumPy adds.
    new_total : callable, optional
        Makes an array for a sum, from the number of arrays made before.
    """
    cdef tuple merges
    cdef int64_t length
    cdef Reduction reduction
    cdef object new_total
    cdef list arrays
    cdef Py_ssize_t done, count

    def __init__(
        self, tuple merges, int64_t length, Reduction reduction=None, new_total=None
    ):
        self.merges, self.length, self.reduction = merges, length, reduction
        self.new_total, self.arrays = new_total, []

    @property
    def totals(self):
        """The sums of the nodes that are left, in order."""
        return self.arrays[: self.count]

    def add_shard(self, parts):
        """Add the next node: arrays whose elements follow each other."""
        cdef int64_t begin = 0
        cdef Py_ssize_t merges = self.next_merges()
        for part in parts:
            begin += self.place(merges, part, begin)
        self.count += 1 - merges

    def add(self, cnp.ndarray total):
        """Add the sum of the next node, in an array that this may keep."""
        cdef Py_ssize_t merges = self.next_merges()
        if merges:
            self.merge(merges, total, 0)
        else:
            self.arrays[self.count:] = [total]
        self.count += 1 - merges

    cdef Py_ssize_t next_merges(self) except -1:
        self.done += 1
        return self.merges[self.done - 1]

    cdef int add_array(self, cnp.ndarray elements) except -1:
        """Add the next node, whose elements are an array."""
        cdef Py_ssize_t merges = self.next_merges()
        self.place(merges, elements, 0)
        self.count += 1 - merges
        return 0

    cdef int64_t place(self, Py_ssize_t merges, part, int64_t begin) except -1:
        """Add or copy elements of a node to those of a sum: their number."""
        cdef cnp.ndarray elements = cnp.PyArray_FROM_OF(
            part, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED
        )
        cdef int64_t count = cnp.PyArray_SIZE(elements)
        if begin + count > self.length:
            raise ValueError(f"a node has more than {self.length} elements")
        if merges:
            self.merge(merges, elements, begin)
            return count
        if self.count == len(self.arrays):
            self.arrays.append(self.new_total(self.count))
        cdef cnp.ndarray total = self.arrays[self.count]
        cdef int64_t itemsize = cnp.PyArray_ITEMSIZE(total)
        cdef char *target = <char *>cnp.PyArray_DATA(total) + begin * itemsize
        memcpy(target, cnp.PyArray_DATA(elements), count * itemsize)
        return count

    cdef int merge(
        self, Py_ssize_t merges, cnp.ndarray elements, int64_t begin
    ) except -1:
        """Add elements to the last sum, that to the one before, and so on."""
        if self.reduction is None:
            return self.merge_by_numpy(merges, elements, begin)
        cdef const void *inputs[MOST_MERGED + 1]
        cdef int64_t offset = begin * self.reduction.itemsize
        cdef int64_t count = cnp.PyArray_SIZE(elements), i
        cdef void *target = NULL
        inputs[0] = cnp.PyArray_DATA(elements)
        for i in range(merges):
            target = <char *>cnp.PyArray_DATA(self.sum_at(i)) + offset
            inputs[i + 1] = target
        if count * self.reduction.itemsize < LONG_BYTES:
            self.reduction.function(target, inputs, merges + 1, count, 0, NULL)
            return 0
        with nogil:
            self.reduction.function(target, inputs, merges + 1, count, 0, NULL)
        return 0

    cdef int merge_by_numpy(
        self, Py_ssize_t merges, cnp.ndarray elements, int64_t begin
    ) except -1:
        """The same for dtypes without a reduction."""
        elements = elements.ravel()
        end = begin + len(elements)
        for i in range(merges):
            total = self.sum_at(i)[begin:end]
            elements = np.add(total, elements, out=total)
        return 0

    cdef cnp.ndarray sum_at(self, Py_ssize_t number):
        """A sum of the nodes that are left, from the last one on."""
        return self.arrays[self.count - 1 - number]


def add_shards(list sums, numbers, of, example, by_dtype):
    """Add the contributions of shards to sums, one for each dtype.

    Parameters
    ----------
    sums : list of Sums
        The sums.
    numbers : range
        The shards.
    of : callable
        Returns the contribution of a shard.
    example
        That of the first one.
    by_dtype : callable
        Returns the flat arrays of a contribution, for each dtype.
    """
    contribution = example
    cdef bint is_one = len(sums) == 1
    for number in numbers:
        if number != numbers[0]:
            contribution = of(number)
        if is_one and are_alike(contribution, example):
            (<Sums>sums[0]).add_array(contribution)
            continue
        for each, parts in zip(sums, by_dtype(contribution), strict=True):
            (<Sums>each).add_shard(parts)
