# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Collectives that reduce; see ``collalgo/comm/functions/reducing.py``."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import partial

from collalgo._kernels.comm.arrays cimport (
    array_of,
    fits,
    is_elsewhere,
    length_of,
    like_it,
)
from collalgo._kernels.comm.rooted cimport Rooted

from collalgo.engine.arrays import (
    check_apart,
    check_counts,
    check_overlap,
    check_writeable,
    elements_of,
    result_array,
)
from collalgo.engine.call import Call
from collalgo.engine.integer_mean import IntegerMean
from collalgo.engine.reduction import op_name

cnp.import_array()


cdef class Reducing(Rooted):
    """Runs collectives that combine the arrays of the ranks."""

    cdef object allreduce(self, buf, op, out, algorithm, bint reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "allreduce")
        cdef cnp.ndarray target = like_it(out, source, "allreduce")
        if is_integer_mean(op, source, "allreduce"):
            check_result(target, "allreduce")
            mean, wide = self.widened(source)
            self.allreduce(wide, mean.op, None, algorithm, reproducible, timeout)
            self.narrow(mean, wide, target)
            return buf if out is None else out
        self.call(
            "allreduce", source, target, timeout, algorithm, source, op, 0, -1, None,
            reproducible,
        )
        return buf if out is None else out

    def run_parts(self, cnp.ndarray flat, op, tuple counts):
        if is_elsewhere(flat):
            call = Call("allreduce", flat.dtype, flat.size, op, parts=counts)
            self.call_on_devices(tuple(call), flat, flat, self.seconds, "allreduce")
        elif is_integer_mean(op, flat, "allreduce"):
            mean, wide = self.widened(flat)
            Rooted.run_parts(self, wide, mean.op, counts)
            self.narrow(mean, wide, flat)
        else:
            Rooted.run_parts(self, flat, op, counts)

    cdef object reduce(self, buf, op, root, out, algorithm, bint reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "reduce"), target = None
        cdef int64_t number = self.root_of(root, "reduce")
        if self.rank == number:
            target = like_it(out, source, "reduce")
        if is_integer_mean(op, source, "reduce"):
            if target is not None:
                check_result(target, "reduce")
            mean, wide = self.widened(source)
            self.reduce(wide, mean.op, root, None, algorithm, reproducible, timeout)
            if target is not None:
                self.narrow(mean, wide, target)
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
        cdef int64_t rows = length_of(source, "reduce_scatter")
        cdef int64_t mine = rows // self.size, start = mine * self.rank
        elements = None
        if is_integer_mean(op, source, "reduce_scatter"):
            return self.scatter_mean(
                source, counts, out, algorithm, reproducible, timeout
            )
        if counts is not None or rows % self.size:
            mine, start, elements = self.uneven_block(source, rows, counts)
        if fits(out, source, mine, 1):
            result = target = out
        else:
            result, target = block_result(source, start, mine, out)
        self.call(
            "reduce_scatter", source, target, timeout, algorithm, source, op, 0, -1,
            elements, reproducible,
        )
        return result

    cdef object scatter_mean(
        self, cnp.ndarray source, counts, out, algorithm, bint reproducible, timeout
    ):
        """Scatter the mean of integers."""
        mean, wide = self.widened(source)
        wide = self.reduce_scatter(
            wide, mean.op, counts, None, algorithm, reproducible, timeout
        )
        shape = (len(wide), *(<object>source).shape[1:])
        result, target = result_array(out, source, shape, "reduce_scatter")
        check_result(target, "reduce_scatter")
        self.narrow(mean, wide, target)
        return result

    def widened(self, source):
        """The way to make a mean of integers, and the summands of this rank.

        In the background these are filled in the turn of the call.
        """
        mean = IntegerMean(source.dtype, self.size)
        wide = mean.empty(source.shape)
        if self.is_preparing():
            self.prepared.add(partial(mean.widen, source, wide), None)
        else:
            mean.widen(source, wide)
        return mean, wide

    def narrow(self, mean, wide, target):
        """Make a mean of integers of the sums."""
        if self.is_preparing():
            self.prepared.add(None, partial(mean.narrow, wide, target))
        else:
            mean.narrow(wide, target)

    cdef tuple uneven_block(self, cnp.ndarray source, int64_t rows, counts):
        """The rows and the first row of my block, and the elements of all blocks."""
        counts = self.shares(rows, counts)
        elements = elements_of(counts, source, "reduce_scatter")
        return counts[self.rank], sum(counts[: self.rank]), elements

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


cdef tuple block_result(cnp.ndarray source, int64_t start, int64_t rows, out):
    """The result of a rank that receives a block of ``source``, and its array."""
    shape = (rows, *(<object>source).shape[1:])
    result, target = result_array(out, source, shape, "reduce_scatter")
    if out is not None:
        twins = (source[start : start + rows], target)
        check_overlap(source, target, twins, "reduce_scatter")
    return result, target


cdef check_result(cnp.ndarray target, str caller):
    """Check that a mean can be written to an array."""
    check_writeable(target, "the array of the result", caller)
    check_apart(target, "the array of the result", caller)


cdef inline bint is_integer_mean(op, cnp.ndarray source, str caller):
    """Whether a call asks for the mean of integers, whose sum may exceed their dtype."""
    if not cnp.PyArray_ISINTEGER(source) or (type(op) is str and op == "sum"):
        return False
    return not is_elsewhere(source) and op_name(op, caller) == "avg"
