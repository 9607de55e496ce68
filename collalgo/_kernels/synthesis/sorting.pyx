# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""Sort numbers of transfers in linear time."""

import numpy as np


def grouped(const int64_t[::1] keys, Py_ssize_t count):
    """The positions of each key below a number, in order; larger keys are dropped.

    Returns
    -------
    first, places : ndarray
        The index of the first place of each key and the end of the last, and the places.
    """
    cdef int64_t[::1] first = np.zeros(count + 2, np.int64)
    cdef int64_t[::1] places = np.empty(keys.shape[0], np.int64)
    cdef Py_ssize_t i
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            first[keys[i] + 2] += 1
    for i in range(count):
        first[i + 2] += first[i + 1]
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            places[first[keys[i] + 1]] = i
            first[keys[i] + 1] += 1
    return np.asarray(first)[: count + 1], np.asarray(places)[: first[count]]


cdef void merge(int64_t[::1] ready, Py_ssize_t count, int64_t[::1] more) noexcept:
    """Merge transfers into the first few of others; both are in ascending order."""
    cdef Py_ssize_t left = more.shape[0]
    while left:
        if count and ready[count - 1] > more[left - 1]:
            count -= 1
            ready[count + left] = ready[count]
        else:
            left -= 1
            ready[count + left] = more[left]
