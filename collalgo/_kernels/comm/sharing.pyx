# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Collectives that move data to every rank, unchanged."""

cimport numpy as cnp
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport (
    array_of,
    fast_result,
    is_on_device,
    length_of,
    needs_result,
)
from collalgo._kernels.comm.call_runner cimport CallRunner

from collalgo._kernels.comm.composed import after_exchange
from collalgo.base.integers import rank_of
from collalgo.comm.agreed_counts import agreed_counts
from collalgo.engine.arrays import check_overlap
from collalgo.engine.counts import check_counts, check_table, elements_of
from collalgo.engine.results import in_place_of, result_array

cnp.import_array()


cdef class Sharing(CallRunner):
    """Runs the collectives of ``collalgo/comm/functions/sharing.py``."""

    cdef int64_t root_of(self, root, str caller) except -1:
        """The number of a root, which may be of any type of integers."""
        cdef int overflow = 0
        cdef int64_t number = -1
        if type(root) is int:
            number = PyLong_AsLongLongAndOverflow(root, &overflow)
        if 0 <= number < self.size:
            return number
        return rank_of(root, "root", caller, self.size)

    cdef object broadcast(self, buf, root, algorithm, timeout):
        cdef cnp.ndarray source = array_of(buf, "broadcast")
        cdef int64_t number = self.root_of(root, "broadcast")
        cdef cnp.ndarray target = None if self.rank == number else source
        if target is not None and needs_result(buf, None, source):
            buf, target = in_place_of(buf, source, "broadcast")
        self.move("broadcast", source, target, timeout, algorithm, number)
        return buf

    cdef object allgather(self, buf, out, algorithm, timeout):
        cdef cnp.ndarray source = array_of(buf, "allgather"), target
        result = target = fast_result(buf, out, source, self.size, 0)
        if target is None:
            shape = (self.size, *(<object>source).shape)
            result, target = result_array(buf, out, source, shape, "allgather")
            if out is not None:
                twins = (source, target[self.rank, ...])
                check_overlap(source, target, twins, "allgather")
        self.move("allgather", source, target, timeout, algorithm, 0)
        return result

    cdef object allgatherv(self, buf, counts, out, algorithm, timeout):
        cdef cnp.ndarray source = array_of(buf, "allgatherv")
        if counts is None:
            rest = partial(allgather_rows, self, buf, out, algorithm, timeout)
            return self.after_lengths(source, "allgatherv", timeout, rest)
        cdef list rows = self.checked_lengths(source, counts, "allgatherv")
        elements = elements_of(rows, source, "allgatherv")
        result, target = self.joined(buf, source, rows, out, "allgatherv")
        self.call(
            "allgather", source, target, timeout, algorithm, source, None, 0, -1,
            elements, False, "allgatherv",
        )
        return result

    cdef object alltoall(self, buf, out, algorithm, timeout):
        cdef cnp.ndarray source = array_of(buf, "alltoall"), target
        cdef int64_t rows = length_of(source, "alltoall")
        if rows % self.size:
            raise ValueError(
                f"alltoall: axis 0 of buf has length {rows}, not a multiple of "
                f"the {self.size} ranks; use alltoallv for blocks of unequal length"
            )
        result = target = fast_result(buf, out, source, rows, 1)
        if target is None:
            shape = (<object>source).shape
            result, target = result_array(buf, out, source, shape, "alltoall")
            check_overlap(source, target, None, "alltoall")
        self.move("alltoall", source, target, timeout, algorithm, 0)
        return result

    cdef object alltoallv(
        self, buf, counts, receive_counts, out, algorithm, timeout
    ):
        cdef cnp.ndarray source = array_of(buf, "alltoallv")
        cdef bint at_once = is_on_device(source)
        length_of(source, "alltoallv")
        rest = partial(alltoall_rows, self, buf, out, algorithm, timeout)
        if receive_counts is not None:
            return agreed_counts(
                self, counts, receive_counts, timeout, rest=rest, at_once=at_once
            )
        table = check_table(counts, "alltoallv")
        if table.ndim == 1 and len(table) == self.size:
            return after_exchange(self, table, "alltoallv", timeout, rest, at_once)
        return self.alltoall_table(buf, table, out, algorithm, timeout)

    cdef object alltoall_table(self, buf, counts, out, algorithm, timeout):
        """Exchange blocks, by the rows that each rank sends to each."""
        cdef cnp.ndarray source = array_of(buf, "alltoallv")
        self.check_row(counts, cnp.PyArray_DIM(source, 0))
        cdef list table = counts.ravel().tolist()
        elements = elements_of(table, source, "alltoallv")
        shape = (sum(table[self.rank :: self.size]), *(<object>source).shape[1:])
        result, target = result_array(buf, out, source, shape, "alltoallv")
        check_overlap(source, target, None, "alltoallv")
        self.call(
            "alltoall", source, target, timeout, algorithm, source, None, 0, -1,
            elements, False, "alltoallv",
        )
        return result

    cdef int check_row(self, table, int64_t rows) except -1:
        """Check the rows that each rank sends to each; this one has ``rows``."""
        if table.shape != (self.size, self.size):
            raise ValueError(
                f"alltoallv: counts of shape {table.shape} must be the "
                f"{self.size} numbers of rows for the ranks, or those of all ranks as "
                f"a table of {self.size} x {self.size}, none negative"
            )
        for source, target in np.argwhere(table < 0)[:1]:
            raise ValueError(
                f"alltoallv: rank {source} sends {table[source, target]} rows to rank "
                f"{target}; pass counts of which none is negative"
            )
        sent = sum(table[self.rank].tolist())
        if sent != rows:
            raise ValueError(
                f"alltoallv: rank {self.rank} passed {rows} rows but counts add up "
                f"to {sent}; they must be equal"
            )
        return 0

    cdef int barrier(self, algorithm, timeout) except -1:
        return self.move("barrier", None, None, timeout, algorithm, 0)

    cdef object after_lengths(self, cnp.ndarray source, str caller, timeout, rest):
        """Make a call by ``rest`` of the lengths of all ranks, as an array."""
        mine = np.array([length_of(source, caller)], np.int64)
        return after_exchange(self, mine, caller, timeout, rest, is_on_device(source))

    cdef list checked_lengths(self, cnp.ndarray source, counts, str caller):
        """The number of rows of each rank, checked against those of this one."""
        rows = length_of(source, caller)
        counts = check_counts(counts, self.size, caller)
        if counts[self.rank] != rows:
            wanted = counts[self.rank]
            raise ValueError(
                f"{caller}: rank {self.rank} passed {rows} rows but counts give it "
                f"{wanted}; pass an array of {wanted} rows, or the same counts on every rank"
            )
        return counts

    cdef tuple joined(self, buf, cnp.ndarray source, list counts, out, str caller):
        """The result of a call that concatenates all arrays, and the array that it writes."""
        shape = (sum(counts), *(<object>source).shape[1:])
        result, target = result_array(buf, out, source, shape, caller)
        if out is not None:
            start = sum(counts[: self.rank])
            mine = target[start : start + counts[self.rank]]
            check_overlap(source, target, (source, mine), caller)
        return result, target


def allgather_rows(Sharing runner, buf, out, algorithm, timeout, lengths):
    """Make an allgatherv of arrays of these lengths."""
    return runner.allgatherv(buf, lengths.ravel().tolist(), out, algorithm, timeout)


def alltoall_rows(Sharing runner, buf, out, algorithm, timeout, table):
    """Make an alltoallv of blocks of these lengths."""
    return runner.alltoall_table(buf, table, out, algorithm, timeout)
