# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reductions of elements that must be converted first, or gathered."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport is_on_device
from collalgo._kernels.comm.rooted cimport Rooted

from collalgo.bootstrap.timeouts import seconds as seconds_of
from collalgo.comm.gathered_reduction import GatheredReduction, needs_gathering
from collalgo.comm.op_failures import agree
from collalgo.engine.arrays import check_apart, check_packable, check_writeable
from collalgo.engine.call import Call, Part
from collalgo._kernels.engine.reduction.reduce import OPERATIONS
from collalgo.engine.conversion import conversion_of, invariant_conversion
from collalgo.engine.reduction import INVARIANT, op_of
from collalgo.engine.ufuncs import LOGICAL
from collalgo.selection.applicability import combine_at_once

cnp.import_array()

cdef frozenset PLAIN_OPS = frozenset(OPERATIONS)


cdef class Combining(Rooted):
    """Combines elements as they are, converted to others, or gathered."""

    cdef tuple converted(
        self, op, cnp.ndarray source, target, str caller, algorithm, reproducible
    ):
        """The conversion of elements and the converted ones of this rank, or None.

        In the background these are filled when the call runs. A result is written to
        ``target``, if that is known.
        """
        if type(algorithm) is Part:
            algorithm = algorithm.algorithm
        if not may_convert(op, source, algorithm, reproducible):
            return None
        way = conversion_of(op, source, self.size, caller, reproducible)
        if way is None and is_invariant(reproducible):
            at_once = combine_at_once(caller, algorithm)
            way = invariant_conversion(op, source, self.size, caller, at_once)
        if way is None:
            return None
        if target is not None:
            check_result(target, caller)
        inner = way.empty((<object>source).shape)
        if self.is_preparing():
            self.prepared.add(partial(way.widen, source, inner), None)
        else:
            way.widen(source, inner)
        return way, inner

    cdef int end_single(self, op, cnp.ndarray target, str caller) except -1:
        """Make the result of a logical op of a single contribution: 0 or 1."""
        if target is None or is_on_device(target) or type(op) is str and op == "sum":
            return 0
        if op_of(op, caller) not in LOGICAL:
            return 0
        if self.is_preparing():
            self.prepared.add(None, partial(make_truth, target))
        else:
            make_truth(target)
        return 0

    cdef int convert_back(self, way, inner, target) except -1:
        """Make the result of converted elements."""
        if self.is_preparing():
            self.prepared.add(None, partial(way.narrow, inner, target))
        else:
            way.narrow(inner, target)
        return 0

    cdef int combine(
        self, str name, cnp.ndarray source, cnp.ndarray target, timeout, algorithm, op,
        int64_t root, counts, reproducible
    ) except -1:
        """Make a call that combines arrays of its own elements."""
        if is_cut(source) and not is_on_device(source) and needs_gathering(op, name):
            call = Call(
                name, source.dtype, source.size, op, root, algorithm, counts
            )
            return self.gather_and_combine(call, source, target, timeout)
        return self.call(
            name, source, target, timeout, algorithm, source, op, root, -1, counts,
            reproducible,
        )

    cdef int gather_and_combine(
        self, call, cnp.ndarray source, cnp.ndarray target, timeout
    ) except -1:
        """Combine elements that would be split between messages."""
        cdef double waiting = self.seconds if timeout is None else seconds_of(timeout)
        name = call.collective
        check_packable(source, target, name)
        work = GatheredReduction(self, call, source)
        if self.is_preparing():
            self.prepared.prepare(
                work.program, work.source, work.gathered,
                self.scratch_for(work.program), waiting,
            )
            self.prepared.add(
                partial(work.fill, source),
                partial(self.end_gathered, self.run, work, target, waiting, name),
            )
        else:
            self.run_now(work.program, work.source, work.gathered, waiting, name)
            self.end_gathered(self.run_now, work, target, waiting, name)
        return 0

    def end_gathered(self, run, work, target, double waiting, str name):
        """Combine the gathered elements; all ranks raise the error of the op."""
        work.combine(target)
        agree(self, run, work.failure, waiting, name)


def make_truth(target):
    """Replace each element by 1 unless it is 0."""
    np.not_equal(target, 0, out=target, casting="unsafe")


cdef check_result(cnp.ndarray target, str caller):
    """Check that a converted result can be written to an array."""
    check_writeable(target, "the array of the result", caller)
    check_apart(target, "the array of the result", caller)


cdef inline bint is_cut(cnp.ndarray source):
    """Whether messages may end inside an element."""
    cdef int64_t itemsize = cnp.PyArray_ITEMSIZE(source)
    return itemsize > 64 or itemsize & (itemsize - 1)


cdef inline bint is_invariant(reproducible):
    """Whether the result must not depend on the ranks."""
    return reproducible is not False and reproducible == INVARIANT


cdef inline bint may_convert(op, cnp.ndarray source, algorithm, reproducible):
    """Whether elements may have to be converted: a fast check.

    They are for the mean of integers, where their bytes are in another order, and for
    exact results unless these are sums by the algorithms of the library's choice.
    """
    cdef bint is_sum = type(op) is str and (op == "sum" or op == "avg")
    if not cnp.PyArray_ISNOTSWAPPED(source):
        return True
    if is_invariant(reproducible) and not (is_sum and algorithm is None):
        return True
    if not cnp.PyArray_ISINTEGER(source):
        return False
    return not (type(op) is str and (op == "sum" or op in PLAIN_OPS))
