# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Arrays that lie one after the other in one buffer, as one message carries them."""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

import numpy as np

from collalgo._kernels.comm.arrays cimport is_on_device

from collalgo.engine.arrays import bounds

cnp.import_array()

ctypedef struct memory_span:
    int64_t low, high  # the addresses of the first byte and after the last


cdef inline bint is_plain(cnp.ndarray array) noexcept:
    """Whether the elements of an array of the host follow one another."""
    return not is_on_device(array) and cnp.PyArray_IS_C_CONTIGUOUS(array)


cdef object part_of(cnp.ndarray flat, int64_t start, cnp.ndarray array):
    """The part of a buffer for an array, from a byte on, with the shape of the array."""
    cdef int64_t width = cnp.PyArray_ITEMSIZE(flat)
    cdef int64_t stop = start + cnp.PyArray_NBYTES(array)
    part = (<object>flat)[start // width : stop // width]
    if cnp.PyArray_DESCR(flat) is not cnp.PyArray_DESCR(array):
        part = part.view((<object>array).dtype)
    return part.reshape((<object>array).shape)


cpdef int join(list arrays, cnp.ndarray flat) except -1:
    """Copy arrays into a buffer."""
    cdef char *memory = cnp.PyArray_BYTES(flat)
    cdef int64_t start = 0, nbytes
    cdef cnp.ndarray array
    for array in arrays:
        nbytes = cnp.PyArray_NBYTES(array)
        if is_plain(array):
            memcpy(memory + start, cnp.PyArray_BYTES(array), nbytes)
        elif nbytes:
            part_of(flat, start, array)[...] = array
        start += nbytes
    return 0


cpdef int spread(cnp.ndarray flat, list arrays) except -1:
    """Copy the parts of a buffer to the arrays."""
    cdef char *memory = cnp.PyArray_BYTES(flat)
    cdef int64_t start = 0, nbytes
    cdef cnp.ndarray array
    for array in arrays:
        nbytes = cnp.PyArray_NBYTES(array)
        if is_plain(array):
            memcpy(cnp.PyArray_BYTES(array), memory + start, nbytes)
        elif nbytes:
            (<object>array)[...] = part_of(flat, start, array)
        start += nbytes
    return 0


cdef int spread_rows(cnp.ndarray rows, list arrays) except -1:
    """Copy the parts of each row of a table to the same row of the arrays."""
    cdef int64_t row
    for row in range(cnp.PyArray_DIM(rows, 0)):
        spread((<object>rows)[row], [(<object>array)[row, ...] for array in arrays])
    return 0


def shared_pair(written, others):
    """The numbers of two arrays that share memory, of which the first is written.

    That may be a pair of arrays in ``written``, or of one in it and one in ``others``
    with another number. None if there are no such arrays.
    """
    cdef list spans = [], active = []
    cdef cnp.ndarray array
    cdef memory_span where
    if not may_share(written, others):
        return None
    for is_written, arrays in ((True, written), (False, others)):
        for number, array in enumerate(arrays):
            if cnp.PyArray_SIZE(array):
                where = span_of(array)
                spans.append((where.low, where.high, number, is_written, array))
    spans.sort(key=lambda span: span[0])
    for span in spans:
        active = [other for other in active if other[1] > span[0]]
        for other in active:
            if are_at_odds(span, other):
                return (span[2], other[2]) if span[3] else (other[2], span[2])
        active.append(span)
    return None


cdef bint may_share(written, others) except -1:
    """Whether the spans of any two arrays overlap: a fast check."""
    cdef int64_t count = len(written) + len(others), place = 0
    cdef memory_span *spans = <memory_span *>malloc(count * sizeof(memory_span) + 1)
    if spans is NULL:
        raise MemoryError
    try:
        for arrays in (written, others):
            for array in arrays:
                spans[place] = span_of(array)
                place += 1
        return sorted_overlap(spans, count)
    finally:
        free(spans)


cdef bint sorted_overlap(memory_span *spans, int64_t count) noexcept:
    """Sort spans unless they are in order; whether any two overlap."""
    cdef int64_t place, last = 0
    for place in range(1, count):
        if spans[place].low < spans[place - 1].low:
            qsort(spans, count, sizeof(memory_span), by_low)
            break
    for place in range(count):
        if spans[place].low < last:
            return True
        last = max(last, spans[place].high)
    return False


cdef int by_low(const void *one, const void *other) noexcept nogil:
    """The order of two spans by their first bytes."""
    cdef int64_t left = (<const memory_span *>one).low
    cdef int64_t right = (<const memory_span *>other).low
    return (left > right) - (left < right)


cdef memory_span span_of(cnp.ndarray array) except *:
    """The addresses of the first byte of an array and after the last."""
    cdef memory_span found
    found.low = <int64_t>cnp.PyArray_BYTES(array)
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        found.high = found.low + cnp.PyArray_NBYTES(array)
    else:
        found.low, found.high = bounds(array)
    return found


cdef bint are_at_odds(tuple one, tuple other) except -1:
    """Whether two arrays, one of which is written, share memory."""
    if not (one[3] or other[3]) or (one[2] == other[2] and one[3] != other[3]):
        return False
    return np.shares_memory(one[4], other[4])
