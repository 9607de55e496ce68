# cython: language_level=3, wraparound=False
# cython: freethreading_compatible=True
"""What messages load links with: their legs, their times, and who is busiest."""

from libc.stdint cimport int64_t

from collalgo._kernels.cost.sorting cimport ints, sort

import numpy as np


def legs_of(ints which, ints lengths, ints first, ints ways, const double[::1] parts):
    """The legs of messages that each take one of some routes.

    Parameters
    ----------
    which
        The route of each message.
    lengths, first
        Of each route how many legs it has, and which is the first of them.
    ways, parts
        Of the legs of all routes.

    Returns
    -------
    tuple of ndarray
        The message, way and part of each leg.
    """
    cdef Py_ssize_t i, j, used = 0
    for i in range(which.shape[0]):
        used += lengths[which[i]]
    cdef int64_t[::1] message = np.empty(used, np.int64)
    cdef int64_t[::1] way = np.empty(used, np.int64)
    cdef double[::1] part = np.empty(used)
    used = 0
    for i in range(which.shape[0]):
        for j in range(first[which[i]], first[which[i]] + lengths[which[i]]):
            message[used], way[used], part[used] = i, ways[j], parts[j]
            used += 1
    return np.asarray(message), np.asarray(way), np.asarray(part)


def seconds_of(
    ints message,
    ints way,
    const double[::1] part,
    ints step,
    const double[::1] share,
    const double[::1] times,
    const double[::1] speed,
):
    """How long the legs of messages take for each byte of the buffer.

    Parameters
    ----------
    message, way, part
        Of each leg, as of :func:`legs_of`.
    step, share
        When each message is sent, and how much of the buffer it is.
    times
        How often each step occurs.
    speed
        Bytes per second of each way.

    Returns
    -------
    steps, seconds, busy : ndarray
        The step and the time of each leg, and the time of each way over all steps.
    """
    cdef Py_ssize_t n = message.shape[0], i
    cdef int64_t[::1] steps = np.empty(n, np.int64)
    cdef double[::1] seconds = np.empty(n)
    cdef double[::1] busy = np.zeros(speed.shape[0])
    for i in range(n):
        steps[i] = step[message[i]]
        seconds[i] = share[message[i]] * part[i] / speed[way[i]]
        busy[way[i]] += seconds[i] * times[steps[i]]
    return np.asarray(steps), np.asarray(seconds), np.asarray(busy)


def largest_sums(
    ints step, ints column, weights, Py_ssize_t steps, Py_ssize_t segments=1
):
    """For each step the largest sum of the weights of a column, and which column's.

    Parameters
    ----------
    step, column, weights
        Of each of some things, in any order; all weigh 1 without weights.
    steps
        The number of steps.
    segments
        So many times it all happens, each time a step later.

    Returns
    -------
    most, which : ndarray
        The sum and the column, 0 and -1 where there is none above 0; of equals the
        first.
    """
    cdef Py_ssize_t n = step.shape[0], i, j
    cdef Py_ssize_t width = 0
    for i in range(n):
        width = max(width, column[i] + 1)
    cdef const double[::1] weight = np.ones(n) if weights is None else weights
    cdef int64_t[::1] first = np.zeros(steps + 2, np.int64)
    cdef int64_t[::1] order = np.empty(n, np.int64)
    cdef double[::1] sums = np.zeros(width)
    cdef int64_t[::1] counts = np.zeros(width, np.int64)
    cdef int64_t[::1] busy = np.empty(width, np.int64)  # at least those with a count
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
        for j in range(start, stop):  # and another begins it
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
    """Take the sum of a column if it is larger, or as large and its column before."""
    if sum > largest.sum or sum == largest.sum and column < largest.column:
        largest.sum, largest.column = sum, column
