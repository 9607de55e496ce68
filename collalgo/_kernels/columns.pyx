# cython: language_level=3, wraparound=False
# cython: freethreading_compatible=True
"""The inner loops of :mod:`collalgo.cost`: transfers as columns of numbers, and sums."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

import numpy as np

from collalgo.schedule import Kind, Transfer, as_step

cdef object TRANSFER = Transfer, SEND = Kind.SEND, RECV = Kind.RECV

ctypedef const int64_t[::1] ints


cdef struct Record:
    int64_t step, rank, kind, peer, lane
    double share


cdef object RECORD = np.dtype(
    [(name, "q") for name in ("step", "rank", "kind", "peer", "lane")] + [("share", "d")]
)


def columns(traces):
    """The columns of what ranks do with others, whatever they do by themselves.

    Parameters
    ----------
    traces
        Pairs of a rank and what its schedule yields.

    Returns
    -------
    list of ndarray
        The step, rank, kind, peer, lane and share of each transfer.
    """
    cdef Py_ssize_t used = 0, room = 256
    cdef bytearray memory = bytearray(room * sizeof(Record))
    cdef Record* record
    cdef int64_t rank, step, peer
    for rank, steps in traces:
        step = 0
        for yielded in steps:
            for transfer in yielded if is_step(yielded) else as_step(yielded):
                peer = field(transfer, 1)
                if peer == rank:
                    continue
                if used == room:
                    room *= 2
                    PyByteArray_Resize(memory, room * sizeof(Record))
                record = <Record*> PyByteArray_AS_STRING(memory) + used
                record.step, record.rank, record.peer = step, rank, peer
                kind = field(transfer, 0)
                record.kind = 0 if kind is SEND else 1 if kind is RECV else 2
                record.share = share_of(field(transfer, 2))
                record.lane = field(transfer, 3)
                used += 1
            step += 1
    table = np.frombuffer(memory, RECORD, used)
    return [np.ascontiguousarray(table[name]) for name in RECORD.names]


cdef bint is_step(yielded):
    """Whether something is a tuple of transfers, as most that schedules yield is."""
    if type(yielded) is not tuple:
        return False
    for transfer in <tuple> yielded:
        if type(transfer) is not TRANSFER:
            return False
    return True


cdef double share_of(chunks) except -1:
    """How much of the buffer some chunks are."""
    cdef double share = 0
    cdef int64_t start, stop, parts
    for chunk in chunks:
        start, stop, parts = field(chunk, 0), field(chunk, 1), field(chunk, 2)
        share += <double> (stop - start) / parts
    return share


cdef inline object field(row, Py_ssize_t index):
    """A field of a named tuple, which Cython does not take for a tuple by itself."""
    return (<tuple> row)[index] if isinstance(row, tuple) else row[index]


def spread(
    ints step,
    ints rank,
    ints kind,
    ints peer,
    ints lane,
    const double[::1] share,
    ints onto,
    ints like,
    const int64_t[:, ::1] digits,
):
    """What some ranks do, from what others do whom they are like.

    Parameters
    ----------
    step, rank, kind, peer, lane, share
        Of each transfer of the others.
    onto, like
        The ranks, and whom each is like.
    digits
        Of each digit of a rank how many values it has, what one counts, and whether
        those of peers turn with it.

    Returns
    -------
    tuple of ndarray
        The same columns for all that the ranks do, one after the other.
    """
    cdef Py_ssize_t n = rank.shape[0], ranks = onto.shape[0], used = 0, i, j, k, m
    cdef int64_t last = 0, radix, stride, turned
    for i in range(n):
        last = max(last, rank[i])
    for i in range(ranks):
        last = max(last, like[i])
    cdef int64_t[::1] first = np.zeros(last + 3, np.int64)
    cdef int64_t[::1] order = np.empty(n, np.int64)
    sort(rank, first, order)
    for i in range(ranks):
        used += first[like[i] + 1] - first[like[i]]
    cdef int64_t[:, ::1] found = np.zeros((5, used), np.int64)
    cdef double[::1] shares = np.empty(used)
    used = 0
    for i in range(ranks):
        for j in range(first[like[i]], first[like[i] + 1]):
            m = order[j]
            for k in range(digits.shape[1]):
                radix, stride = digits[0, k], digits[1, k]
                turned = peer[m] // stride + onto[i] // stride * digits[2, k]
                found[3, used] += turned % radix * stride
            found[0, used], found[1, used], found[2, used] = step[m], onto[i], kind[m]
            found[4, used], shares[used] = lane[m], share[m]
            used += 1
    return (*np.asarray(found), np.asarray(shares))


cdef struct Row:
    int64_t rank, kind, peer
    double share


def numbered_steps(
    ints step, ints rank, ints kind, ints peer, const double[::1] share, Py_ssize_t steps
):
    """Number steps as they first occur: those that are alike have one number.

    Parameters
    ----------
    step, rank, kind, peer, share
        Of each transfer; those of a step in an order that counts.
    steps
        The number of steps.

    Returns
    -------
    ndarray
        The number of each step.
    """
    cdef Py_ssize_t n = step.shape[0], i, j
    cdef int64_t[::1] first = np.zeros(steps + 2, np.int64)
    cdef int64_t[::1] order = np.empty(n, np.int64)
    sort(step, first, order)
    cdef bytearray memory = bytearray(n * sizeof(Row))
    cdef Row* rows = <Row*> PyByteArray_AS_STRING(memory)
    for i in range(n):
        j = order[i]
        rows[i] = Row(rank[j], kind[j], peer[j], share[j])
    cdef dict known = {}
    cdef int64_t[::1] number = np.empty(steps, np.int64)
    for i in range(steps):
        what = PyBytes_FromStringAndSize(
            <char*> (rows + first[i]), (first[i + 1] - first[i]) * sizeof(Row)
        )
        number[i] = known.setdefault(what, len(known))
    return np.asarray(number)


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
    """Whether the sum of a column is larger, or as large and its column before."""
    if sum > largest.sum or sum == largest.sum and column < largest.column:
        largest.sum, largest.column = sum, column


cdef void sort(ints keys, int64_t[::1] first, int64_t[::1] order) noexcept:
    """Order things by their keys, which count from 0, and tell the first of each."""
    cdef Py_ssize_t i
    for i in range(keys.shape[0]):
        first[keys[i] + 2] += 1
    for i in range(first.shape[0] - 2):
        first[i + 2] += first[i + 1]
    for i in range(keys.shape[0]):
        order[first[keys[i] + 1]] = i
        first[keys[i] + 1] += 1
