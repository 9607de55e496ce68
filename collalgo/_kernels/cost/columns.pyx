# cython: language_level=3, wraparound=False
# cython: freethreading_compatible=True
"""Transfers as columns of numbers, from schedules or from symmetric ranks."""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

from collalgo._kernels.cost.sorting cimport ints, sort

import numpy as np

from collalgo.schedule import Kind, Transfer, as_step
from collalgo.schedule.tracing import MOST_STEPS, endless

cdef object TRANSFER = Transfer, SEND = Kind.SEND, RECV = Kind.RECV
cdef int64_t MOST = MOST_STEPS


cdef struct Record:
    int64_t step, rank, kind, peer, lane
    double share


cdef object RECORD = np.dtype(
    [(name, "q") for name in ("step", "rank", "kind", "peer", "lane")] + [("share", "d")]
)


@cython.final
cdef class Records:
    """The records of transfers, in memory that grows."""
    cdef bytearray memory
    cdef Py_ssize_t used, room

    def __init__(self):
        self.room = 256
        self.memory = bytearray(self.room * sizeof(Record))

    cdef int add(self, int64_t step, int64_t rank, transfer) except -1:
        """Add a transfer, unless it is from a rank to itself."""
        cdef int64_t peer = field(transfer, 1)
        if peer == rank:
            return 0
        if self.used == self.room:
            self.room *= 2
            PyByteArray_Resize(self.memory, self.room * sizeof(Record))
        cdef Record* record = <Record*> PyByteArray_AS_STRING(self.memory) + self.used
        record.step, record.rank, record.peer = step, rank, peer
        kind = field(transfer, 0)
        record.kind = 0 if kind is SEND else 1 if kind is RECV else 2
        record.share = share_of(field(transfer, 2))
        record.lane = field(transfer, 3)
        self.used += 1
        return 0


def columns(traces):
    """The columns of the transfers between different ranks.

    Parameters
    ----------
    traces
        Pairs of a rank and the steps that its schedule yields.

    Returns
    -------
    list of ndarray
        The step, rank, kind, peer, lane and share of each transfer.
    """
    cdef Records found = Records()
    cdef int64_t rank, step
    for rank, steps in traces:
        step = 0
        for yielded in steps:
            for transfer in yielded if is_step(yielded) else as_step(yielded):
                found.add(step, rank, transfer)
            step += 1
            if step == MOST:
                raise endless()
    table = np.frombuffer(found.memory, RECORD, found.used)
    return [np.ascontiguousarray(table[name]) for name in RECORD.names]


cdef bint is_step(yielded):
    """Whether a yielded object is a tuple of transfers, the usual case."""
    if type(yielded) is not tuple:
        return False
    for transfer in <tuple> yielded:
        if type(transfer) is not TRANSFER:
            return False
    return True


cdef double share_of(chunks) except -1:
    """The share of the buffer that some chunks make up."""
    cdef double share = 0
    cdef int64_t start, stop, parts
    for chunk in chunks:
        start, stop, parts = field(chunk, 0), field(chunk, 1), field(chunk, 2)
        share += <double> (stop - start) / parts
    return share


cdef inline object field(row, Py_ssize_t index):
    """A field of a named tuple, which Cython does not treat as a tuple by itself."""
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
    """The transfers of some ranks, derived from those of their representatives.

    Parameters
    ----------
    step, rank, kind, peer, lane, share
        The columns of the transfers of the representatives.
    onto, like
        The ranks, and the representative of each.
    digits
        The radix and the stride of each digit of a rank, and whether the digit of a
        peer turns with it.

    Returns
    -------
    tuple of ndarray
        The same columns for the transfers of the ranks, rank after rank.
    """
    cdef Py_ssize_t used = 0, i, j, k, m
    cdef int64_t radix, stride, turned
    cdef int64_t[::1] order = np.empty(rank.shape[0], np.int64)
    cdef int64_t[::1] first = np.zeros(max(largest(rank), largest(like)) + 3, np.int64)
    sort(rank, first, order)
    cdef int64_t[:, ::1] found = np.zeros((5, entries_of(like, first)), np.int64)
    cdef double[::1] shares = np.empty(found.shape[1])
    for i in range(onto.shape[0]):
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


cdef int64_t largest(ints numbers) except -1:
    """The largest of some numbers; 0 of an empty array."""
    cdef int64_t found = 0
    cdef Py_ssize_t i
    for i in range(numbers.shape[0]):
        found = max(found, numbers[i])
    return found


cdef int64_t entries_of(ints keys, const int64_t[::1] first) except -1:
    """The number of sorted entries that have these keys, one key after the other."""
    cdef int64_t found = 0
    cdef Py_ssize_t i
    for i in range(keys.shape[0]):
        found += first[keys[i] + 1] - first[keys[i]]
    return found


cdef struct Row:
    int64_t rank, kind, peer
    double share


def numbered_steps(
    ints step, ints rank, ints kind, ints peer, const double[::1] share, Py_ssize_t steps
):
    """Number the distinct steps in order of first occurrence.

    Parameters
    ----------
    step, rank, kind, peer, share
        The columns of the transfers; their order within a step matters.
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
