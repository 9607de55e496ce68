"""A counting sort for the loops of :mod:`collalgo.cost`."""

from libc.stdint cimport int64_t

ctypedef const int64_t[::1] ints


cdef inline int sort(ints keys, int64_t[::1] first, int64_t[::1] order) except -1:
    """Order entries by their keys, which count from 0, and find the first of each key.

    ``first`` is zeros, two more than the number of keys; ``order`` is as long as
    ``keys``.
    """
    cdef Py_ssize_t i
    for i in range(keys.shape[0]):
        first[keys[i] + 2] += 1
    for i in range(first.shape[0] - 2):
        first[i + 2] += first[i + 1]
    for i in range(keys.shape[0]):
        order[first[keys[i] + 1]] = i
        first[keys[i] + 1] += 1
    return 0
