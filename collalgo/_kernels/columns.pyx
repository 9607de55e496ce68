# cython: language_level=3, wraparound=False
# cython: freethreading_compatible=True
"""The inner loops of :mod:`collalgo.cost`: transfers as columns of numbers, and sums."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int64_t

import numpy as np

ctypedef const int64_t[::1] ints


cdef struct Record:
    int64_t step, rank, kind, peer, lane
    double share


cdef object RECORD = np.dtype(
    [(name, "q") for name in ("step", "rank", "kind", "peer", "lane")] + [("share", "d")]
)


def columns(traces, send, recv):
    """The columns of what ranks do with others, whatever they do by themselves.

    Parameters
    ----------
    traces
        Pairs of a rank and its steps.
    send, recv
        The kinds numbered 0 and 1; that of all others is 2.

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
        for transfers in steps:
            for transfer in transfers:
                peer = field(transfer, 1)
                if peer == rank:
                    continue
                if used == room:
                    room *= 2
                    PyByteArray_Resize(memory, room * sizeof(Record))
                record = <Record*> PyByteArray_AS_STRING(memory) + used
                record.step, record.rank, record.peer = step, rank, peer
                kind = field(transfer, 0)
                record.kind = 0 if kind is send else 1 if kind is recv else 2
                record.share = share_of(field(transfer, 2))
                record.lane = field(transfer, 3)
                used += 1
            step += 1
    table = np.frombuffer(memory, RECORD, used)
    return [np.ascontiguousarray(table[name]) for name in RECORD.names]


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


def largest_sums(ints step, ints column, const double[::1] weights, Py_ssize_t steps):
    """For each step the largest sum of the weights of a column, and which column's.

    Parameters
    ----------
    step, column, weights
        Of each of some things, in any order.
    steps
        The number of steps.

    Returns
    -------
    most, which : ndarray
        The sum and the column, 0 and -1 where there is none above 0; of equals the
        first.
    """
    cdef Py_ssize_t n = step.shape[0], i, j
    cdef int64_t this, one
    cdef double[::1] most = np.zeros(steps)
    cdef double[::1] sums = np.zeros(1 + np.max(column, initial=-1))
    cdef int64_t[::1] which = np.full(steps, -1, np.int64)
    cdef int64_t[::1] first = np.zeros(steps + 2, np.int64)
    cdef int64_t[::1] order = np.empty(n, np.int64)
    for i in range(n):
        first[step[i] + 2] += 1
    for i in range(steps):
        first[i + 2] += first[i + 1]
    for i in range(n):
        order[first[step[i] + 1]] = i
        first[step[i] + 1] += 1
    for this in range(steps):
        for j in range(first[this], first[this + 1]):
            sums[column[order[j]]] += weights[order[j]]
        for j in range(first[this], first[this + 1]):
            one = column[order[j]]
            if sums[one] > most[this] or sums[one] == most[this] and one < which[this]:
                most[this], which[this] = sums[one], one
        for j in range(first[this], first[this + 1]):
            sums[column[order[j]]] = 0
    return np.asarray(most), np.asarray(which)
