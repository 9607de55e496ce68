# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Collectives that reduce; see ``collalgo/comm/functions/reducing.py``."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport (
    array_of,
    fast_result,
    is_on_device,
    length_of,
    output_array,
)
from collalgo._kernels.comm.call_runner cimport CommunicatorBase
from collalgo._kernels.comm.rooted cimport Rooted

from collalgo.bootstrap.timeouts import seconds as seconds_of
from collalgo.comm.current import resolve
from collalgo.comm.gathered_reduction import GatheredReduction, needs_gathering
from collalgo.comm.op_failures import agree
from collalgo.comm.scattered import block_result, shares_of
from collalgo.engine.arrays import (
    check_apart,
    check_packable,
    check_writeable,
    elements_of,
    result_array,
)
from collalgo.engine.call import Call
from collalgo._kernels.engine.reduction.reduce import OPERATIONS
from collalgo.engine.conversion import conversion_of, invariant_conversion
from collalgo.engine.reduction import INVARIANT
from collalgo.engine.user_op import Op
from collalgo.selection.applicability import combine_at_once

cnp.import_array()

cdef frozenset PLAIN_OPS = frozenset(OPERATIONS)


cdef Reducing find_runner(comm):
    """The runner of a communicator in any of its forms."""
    if not isinstance(comm, CommunicatorBase):
        comm = resolve(comm)
    runner = (<CommunicatorBase>comm)._runner
    return <Reducing?>(comm if runner is None else runner)


cdef class Reducing(Rooted):
    """Runs all collectives of one rank: its own combine the arrays of the ranks.

    A class for each file of ``collalgo/comm/functions`` adds its collectives to those of
    the class before: :class:`CallRunner`, Sharing, Rooted, Reducing.
    """

    cdef object allreduce(self, buf, op, out, algorithm, reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "allreduce")
        cdef cnp.ndarray target = output_array(out, source, "allreduce")
        if self.again(
            "allreduce", source, target, timeout, algorithm, op, 0, reproducible
        ):
            return buf if out is None else out
        if found := self.converted(
            op, source, target, "allreduce", algorithm, reproducible
        ):
            way, inner = found
            self.allreduce(inner, way.op, None, algorithm, way.reproducible, timeout)
            self.convert_back(way, inner, target)
            return buf if out is None else out
        self.combine(
            "allreduce", source, target, timeout, algorithm, op, 0, None, reproducible
        )
        return buf if out is None else out

    def run_parts(self, cnp.ndarray flat, op, tuple counts):
        if is_on_device(flat):
            call = Call("allreduce", flat.dtype, flat.size, op, parts=counts)
            self.call_on_devices(tuple(call), flat, flat, self.seconds, "allreduce")
        elif found := self.converted(op, flat, None, "allreduce", None, False):
            way, inner = found
            Rooted.run_parts(self, inner, way.op, counts)
            self.convert_back(way, inner, flat)
        else:
            Rooted.run_parts(self, flat, op, counts)

    cdef object reduce(self, buf, op, root, out, algorithm, reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "reduce"), target = None
        cdef int64_t number = self.root_of(root, "reduce")
        if self.rank == number:
            target = output_array(out, source, "reduce")
        if self.again(
            "reduce", source, target, timeout, algorithm, op, number, reproducible
        ):
            return self.reduced(buf, out, number)
        if found := self.converted(
            op, source, target, "reduce", algorithm, reproducible
        ):
            way, inner = found
            self.reduce(inner, way.op, root, None, algorithm, way.reproducible, timeout)
            if target is not None:
                self.convert_back(way, inner, target)
            return self.reduced(buf, out, number)
        self.combine(
            "reduce", source, target, timeout, algorithm, op, number, None, reproducible
        )
        return self.reduced(buf, out, number)

    cdef object reduced(self, buf, out, int64_t root):
        """What a reduce returns: the result at the root."""
        if self.rank != root:
            return None
        return buf if out is None else out

    cdef object reduce_scatter(
        self, buf, op, counts, out, algorithm, reproducible, timeout
    ):
        cdef cnp.ndarray source = array_of(buf, "reduce_scatter"), target
        cdef int64_t rows = length_of(source, "reduce_scatter")
        cdef int64_t mine = rows // self.size, start = mine * self.rank
        elements = None
        if found := self.converted(
            op, source, None, "reduce_scatter", algorithm, reproducible
        ):
            return self.scatter_converted(
                buf, found, source, counts, out, algorithm, timeout
            )
        if counts is not None or rows % self.size:
            mine, start, elements = self.uneven_block(source, rows, counts)
        result = target = fast_result(buf, out, source, mine, 1)
        if target is None:
            result, target = block_result(buf, source, start, mine, out)
        self.combine(
            "reduce_scatter", source, target, timeout, algorithm, op, 0, elements,
            reproducible,
        )
        return result

    cdef object scatter_converted(
        self, buf, tuple found, cnp.ndarray source, counts, out, algorithm, timeout
    ):
        """Scatter the reduction of converted elements."""
        way, inner = found
        inner = self.reduce_scatter(
            inner, way.op, counts, None, algorithm, way.reproducible, timeout
        )
        shape = (len(inner), *(<object>source).shape[1:])
        result, target = result_array(buf, out, source, shape, "reduce_scatter")
        check_result(target, "reduce_scatter")
        self.convert_back(way, inner, target)
        return result

    cdef tuple converted(
        self, op, cnp.ndarray source, target, str caller, algorithm, reproducible
    ):
        """The conversion of elements and the converted ones of this rank, or None.

        In the background these are filled when the call runs. A result is written to
        ``target``, if that is known.
        """
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

    cdef int convert_back(self, way, inner, target) except -1:
        """Make the result of converted elements."""
        if self.is_preparing():
            self.prepared.add(None, partial(way.narrow, inner, target))
        else:
            way.narrow(inner, target)
        return 0

    cdef tuple uneven_block(self, cnp.ndarray source, int64_t rows, counts):
        """The rows and the first row of my block, and the elements of all blocks."""
        counts = shares_of(rows, counts, self.size)
        elements = elements_of(counts, source, "reduce_scatter")
        return counts[self.rank], sum(counts[: self.rank]), elements

    cdef object prefix(self, bint is_exclusive, buf, op, out, algorithm, timeout):
        """Run a scan or an exscan."""
        cdef str name = "exscan" if is_exclusive else "scan"
        cdef cnp.ndarray source = array_of(buf, name)
        cdef cnp.ndarray target = output_array(out, source, name)
        if self.again(name, source, target, timeout, algorithm, op, 0, False):
            pass
        elif found := self.converted(op, source, target, name, algorithm, False):
            way, inner = found
            self.prefix(is_exclusive, inner, way.op, None, algorithm, timeout)
            if self.rank or not is_exclusive:  # else no rank precedes it
                self.convert_back(way, inner, target)
        else:
            self.combine(name, source, target, timeout, algorithm, op, 0, None, False)
        if is_exclusive and not self.rank and isinstance(op, Op):
            self.set_identity(target, op.identity)
        return buf if out is None else out

    cdef int set_identity(self, target, identity) except -1:
        """Write the neutral element of the op, if it has one, after the call."""
        if identity is None:
            return 0
        if self.is_preparing():
            self.prepared.add(None, partial(np.copyto, target, identity))
        else:
            np.copyto(target, identity)
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
