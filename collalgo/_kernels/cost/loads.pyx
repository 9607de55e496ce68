# cython: language_level=3, wraparound=False
# cython: freethreading_compatible=True
"""The load of messages on links: their times, and the busiest link of each step."""

from libc.stdint cimport int64_t

from collalgo._kernels.cost.sorting cimport ints, sort

import numpy as np


def loads_of(ints which, ints lengths, ints first, ints links, const double[::1] parts):
    """The link loads of messages, each on one of several routes.

    Parameters
    ----------
    which
        The route of each message.
    lengths, first
        The number of links of each route, and the index of the first of them.
    links, parts
        The directed links of all routes, and the part of a message on each.

    Returns
    -------
    tuple of ndarray
        The message, directed link and part of each load.
    """
    cdef Py_ssize_t i, j, used = 0
    for i in range(which.shape[0]):
        used += lengths[which[i]]
    cdef int64_t[::1] message = np.empty(used, np.int64)
    cdef int64_t[::1] link = np.empty(used, np.int64)
    cdef double[::1] part = np.empty(used)
    used = 0
    for i in range(which.shape[0]):
        for j in range(first[which[i]], first[which[i]] + lengths[which[i]]):
            message[used], link[used], part[used] = i, links[j], parts[j]
            used += 1
    return np.asarray(message), np.asarray(link), np.asarray(part)


def seconds_of(
    ints message,
    ints link,
    const double[::1] part,
    ints step,
    const double[::1] share,
    const double[::1] times,
    const double[::1] speed,
):
    """The time of each link load for each byte of the buffer.

    Parameters
    ----------
    message, link, part
        The arrays of the loads, as returned by :func:`loads_of`.
    step, share
        The step of each message, and its share of the buffer.
    times
        The number of occurrences of each step.
    speed
        Bytes per second of each directed link.

    Returns
    -------
    steps, seconds, busy : ndarray
        The step and the time of each load, and the busy time of each directed link over
        all steps.
    """
    cdef Py_ssize_t n = message.shape[0], i
    cdef int64_t[::1] steps = np.empty(n, np.int64)
    cdef double[::1] seconds = np.empty(n)
    cdef double[::1] busy = np.zeros(speed.shape[0])
    for i in range(n):
        steps[i] = step[message[i]]
        seconds[i] = share[message[i]] * part[i] / speed[link[i]]
        busy[link[i]] += seconds[i] * times[steps[i]]
    return np.asarray(steps), np.asarray(seconds), np.asarray(busy)


def largest_sums(
    ints step, ints column, weights, Py_ssize_t steps, Py_ssize_t segments=1
):
    """The largest sum of weights over the columns of each step, and that column.

    Parameters
    ----------
    step, column, weights
        The step, the column and the weight of each entry, in any order; a weight is 1
        by default.
    steps
        The number of steps.
    segments
        The number of pipelined segments, each one step after the previous one.

    Returns
    -------
    most, which : ndarray
        The sum and the column, or 0 and -1 where no sum is above 0; of equal sums the
        first column.
    """
    # Long: one loop over the steps, whose parts share all arrays; apart they are 1.4 times
    # as slow.
    cdef Py_ssize_t n = step.shape[0], i, j
    cdef Py_ssize_t width = 0
    for i in range(n):
        width = max(width, column[i] + 1)
    cdef const double[::1] weight = np.ones(n) if weights is None else weights
    cdef int64_t[::1] first = np.zeros(steps + 2, np.int64)
    cdef int64_t[::1] order = np.empty(n, np.int64)
    cdef double[::1] sums = np.zeros(width)
    cdef int64_t[::1] counts = np.zeros(width, np.int64)
    cdef int64_t[::1] busy = np.empty(width, np.int64)  # a superset of the columns with a count
    cdef char[::1] listed = np.zeros(width, np.int8)
    cdef Py_ssize_t kept = 0, still, over = steps + segments - 1 if steps else 0
    cdef double[::1] most = np.zeros(over)
    cdef int64_t[::1] which = np.full(over, -1, np.int64)
    cdef Largest largest = Largest(0, -1)
    cdef int64_t one, start, stop
    sort(step, first, order)
    for i in range(over):
        if i >= segments:  # a segment ends its step
            for j in range(first[i - segments], first[i - segments + 1]):
                one = column[order[j]]
                counts[one] -= 1
                sums[one] = sums[one] - weight[order[j]] if counts[one] else 0
        start, stop = first[min(i, steps)], first[min(i + 1, steps)]
        for j in range(start, stop):  # the next segment begins it
            one = column[order[j]]
            counts[one] += 1
            sums[one] += weight[order[j]]
            if not listed[one]:
                busy[kept], listed[one] = one, True
                kept += 1
        if largest.column >= 0 and sums[largest.column] >= largest.sum:
            for j in range(start, stop):
                compare(&largest, sums[column[order[j]]], column[order[j]])
        else:
            largest = Largest(0, -1)
            still = 0
            for j in range(kept):
                one = busy[j]
                listed[one] = counts[one] > 0
                if listed[one]:
                    busy[still] = one
                    still += 1
                    compare(&largest, sums[one], one)
            kept = still
        most[i], which[i] = largest.sum, largest.column
    return np.asarray(most), np.asarray(which)


cdef struct Largest:
    double sum
    int64_t column


cdef inline void compare(Largest* largest, double sum, int64_t column) noexcept:
    """Take the sum of a column if it is larger, or equal and its column is lower."""
    if sum > largest.sum or sum == largest.sum and column < largest.column:
        largest.sum, largest.column = sum, column
