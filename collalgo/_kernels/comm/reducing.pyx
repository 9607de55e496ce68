# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Collectives that reduce; see ``collalgo/comm/functions/reducing.py``."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport (
    array_of,
    fits,
    is_elsewhere,
    length_of,
    like_it,
)
from collalgo._kernels.comm.rooted cimport Rooted
from collalgo._kernels.comm.work cimport Work

from collalgo.engine.arrays import (
    check_apart,
    check_counts,
    check_overlap,
    check_writeable,
    elements_of,
    result_array,
)
from collalgo.engine.reduction import op_name, summing_dtype

cnp.import_array()


cdef class Reducing(Rooted):
    """Runs collectives that combine the arrays of the ranks."""

    cdef object allreduce(self, buf, op, out, algorithm, bint reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "allreduce")
        cdef cnp.ndarray target = like_it(out, source, "allreduce")
        if is_narrow_mean(op, source):
            wide = self.widened(source)
            self.allreduce(wide, op, None, algorithm, reproducible, timeout)
            self.narrow(wide, target, "allreduce")
            return buf if out is None else out
        self.call(
            "allreduce", source, target, timeout, algorithm, source, op, 0, -1, None,
            reproducible,
        )
        return buf if out is None else out

    cdef object reduce(self, buf, op, root, out, algorithm, bint reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "reduce"), target = None
        cdef int64_t number = self.root_of(root, "reduce")
        if self.rank == number:
            target = like_it(out, source, "reduce")
        if is_narrow_mean(op, source):
            wide = self.widened(source)
            self.reduce(wide, op, root, None, algorithm, reproducible, timeout)
            if target is not None:
                self.narrow(wide, target, "reduce")
                return buf if out is None else out
            return None
        self.call(
            "reduce", source, target, timeout, algorithm, source, op, number, -1, None,
            reproducible,
        )
        if self.rank != number:
            return None
        return buf if out is None else out

    cdef object reduce_scatter(
        self, buf, op, counts, out, algorithm, bint reproducible, timeout
    ):
        cdef cnp.ndarray source = array_of(buf, "reduce_scatter"), target
        cdef int64_t rows = length_of(source, "reduce_scatter"), mine, start
        elements = None
        if is_narrow_mean(op, source):
            wide = self.reduce_scatter(
                self.widened(source), op, counts, None, algorithm, reproducible, timeout
            )
            shape = (<object>wide).shape
            result, target = result_array(out, source, shape, "reduce_scatter")
            self.narrow(wide, target, "reduce_scatter")
            return result
        if counts is None and rows % self.size == 0:
            mine = rows // self.size
            start = mine * self.rank
        else:
            counts = self.shares(rows, counts)
            mine, start = counts[self.rank], sum(counts[: self.rank])
            elements = elements_of(counts, source, "reduce_scatter")
        if fits(out, source, mine, 1):
            result = target = out
        else:
            shape = (mine, *(<object>source).shape[1:])
            result, target = result_array(out, source, shape, "reduce_scatter")
            if out is not None:
                twins = (source[start : start + mine], target)
                check_overlap(source, target, twins, "reduce_scatter")
        self.call(
            "reduce_scatter", source, target, timeout, algorithm, source, op, 0, -1,
            elements, reproducible,
        )
        return result

    def widened(self, source):
        """A wider copy of narrow integers, whose sum cannot overflow.

        In the background it is filled in the turn of the call.
        """
        wide = np.empty(source.shape, summing_dtype(source.dtype, "avg"))
        if self.is_preparing():
            self.prepared.add(partial(np.copyto, wide, source), None)
        else:
            np.copyto(wide, source)
        return wide

    def narrow(self, wide, target, str caller):
        """Copy a mean of wider integers to its array."""
        check_writeable(target, "the array of the result", caller)
        check_apart(target, "the array of the result", caller)
        copy = partial(np.copyto, target, wide, "unsafe")
        if self.is_preparing():
            self.prepared.add((<Work>self.prepared).before, copy)
        else:
            copy()

    cdef list shares(self, int64_t rows, counts):
        """The rows of each rank's block; by default they differ by one at most."""
        if counts is None:
            share, more = divmod(rows, self.size)
            return [share + (rank < more) for rank in range(self.size)]
        counts = check_counts(counts, self.size, "reduce_scatter")
        if sum(counts) != rows:
            raise ValueError(
                f"reduce_scatter: counts add up to {sum(counts)} rows but buf has "
                f"{rows}; they must be equal"
            )
        return counts

    cdef object prefix(self, str name, buf, op, out, algorithm, timeout):
        """Run a scan or an exscan."""
        cdef cnp.ndarray source = array_of(buf, name)
        self.call(
            name, source, like_it(out, source, name), timeout, algorithm, source, op
        )
        return buf if out is None else out


cdef inline bint is_narrow_mean(op, cnp.ndarray source):
    """Whether a call asks for the mean of integers whose sum may exceed their dtype."""
    if not cnp.PyArray_ISINTEGER(source) or (type(op) is str and op == "sum"):
        return False
    dtype = (<object>source).dtype
    return not is_elsewhere(source) and summing_dtype(dtype, op_name(op)) != dtype
