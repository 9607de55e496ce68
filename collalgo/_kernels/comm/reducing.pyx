# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Collectives that reduce; see ``collalgo/comm/functions/reducing.py``."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport (
    array_of,
    fast_result,
    length_of,
    needs_result,
    output_array,
)
from collalgo._kernels.comm.call_runner cimport CommunicatorBase
from collalgo._kernels.comm.combining cimport Combining, check_result

from collalgo.comm.current import resolve
from collalgo.comm.scattered import block_result, shares_of
from collalgo.engine.counts import elements_of
from collalgo.engine.results import in_place_of, result_array
from collalgo.engine.user_op import Op

cnp.import_array()


cdef Reducing find_runner(comm):
    """The runner of a communicator in any of its forms."""
    if not isinstance(comm, CommunicatorBase):
        comm = resolve(comm)
    runner = (<CommunicatorBase>comm)._runner
    return <Reducing?>(comm if runner is None else runner)


cdef class Reducing(Combining):
    """Runs all collectives of one rank: its own combine the arrays of the ranks.

    A class for each file of ``collalgo/comm/functions`` adds its collectives to those of
    the class before: :class:`CallRunner`, Sharing, Rooted, then Combining and this one.
    """

    cdef object allreduce(self, buf, op, out, algorithm, reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "allreduce")
        cdef cnp.ndarray target = output_array(out, source, "allreduce")
        if needs_result(buf, out, source):
            out, target = in_place_of(buf, source, "allreduce")
        self.reduce_to(
            "allreduce", source, target, op, 0, algorithm, reproducible, timeout
        )
        if self.size == 1:
            self.end_single(op, target, "allreduce")
        return buf if out is None else out

    cdef object reduce(self, buf, op, root, out, algorithm, reproducible, timeout):
        cdef cnp.ndarray source = array_of(buf, "reduce"), target = None
        cdef int64_t number = self.root_of(root, "reduce")
        if self.rank == number:
            target = output_array(out, source, "reduce")
            if needs_result(buf, out, source):
                out, target = in_place_of(buf, source, "reduce")
        self.reduce_to(
            "reduce", source, target, op, number, algorithm, reproducible, timeout
        )
        if self.size == 1:
            self.end_single(op, target, "reduce")
        if target is None:
            return None
        return buf if out is None else out

    cdef int reduce_to(
        self, str name, cnp.ndarray source, cnp.ndarray target, op, int64_t root,
        algorithm, reproducible, timeout
    ) except -1:
        """Reduce an array to one of the same length, if this rank has a result."""
        if self.again(name, source, target, timeout, algorithm, op, root, reproducible):
            return 0
        found = self.converted(op, source, target, name, algorithm, reproducible)
        if not found:
            return self.combine(
                name, source, target, timeout, algorithm, op, root, None, reproducible
            )
        way, inner = found
        into = None if target is None else inner
        self.reduce_to(
            name, inner, into, way.op, root, algorithm, way.reproducible, timeout
        )
        if target is None or name == "exscan" and not self.rank:  # without a result
            return 0
        return self.convert_back(way, inner, target)

    cdef object reduce_scatter(
        self, buf, op, counts, out, algorithm, reproducible, timeout,
        str caller="reduce_scatter"
    ):
        cdef cnp.ndarray source = array_of(buf, caller), target
        cdef int64_t rows = length_of(source, caller)
        if counts is None and rows % self.size == 0:
            target = fast_result(buf, out, source, rows // self.size, 1)
            if target is not None and self.again(
                "reduce_scatter", source, target, timeout, algorithm, op, 0, reproducible
            ):
                if self.size == 1:
                    self.end_single(op, target, caller)
                return target
        if found := self.converted(
            op, source, None, "reduce_scatter", algorithm, reproducible
        ):
            return self.scatter_converted(
                buf, found, source, counts, out, algorithm, timeout, caller
            )
        return self.scatter_combined(
            buf, source, op, counts, out, algorithm, reproducible, timeout, caller
        )

    cdef object scatter_combined(
        self, buf, cnp.ndarray source, op, counts, out, algorithm, reproducible, timeout,
        str caller
    ):
        """Scatter the reduction of elements as they are."""
        cdef cnp.ndarray target
        cdef int64_t rows = cnp.PyArray_DIM(source, 0)
        cdef int64_t mine = rows // self.size, start = mine * self.rank
        elements = None
        if counts is not None or rows % self.size:
            mine, start, elements = self.uneven_block(source, rows, counts, caller)
        result = target = fast_result(buf, out, source, mine, 1)
        if target is None:
            result, target = block_result(buf, source, start, mine, out, caller)
        self.combine(
            "reduce_scatter", source, target, timeout, algorithm, op, 0, elements,
            reproducible,
        )
        if self.size == 1:
            self.end_single(op, target, caller)
        return result

    cdef object reduce_scatter_block(
        self, buf, op, out, algorithm, reproducible, timeout
    ):
        cdef str name = "reduce_scatter_block"
        cdef int64_t rows = length_of(array_of(buf, name), name)
        if rows % self.size:
            raise ValueError(
                f"{name}: axis 0 of buf has length {rows}, not a multiple of the "
                f"{self.size} ranks; use reduce_scatter for blocks of unequal length"
            )
        return self.reduce_scatter(
            buf, op, None, out, algorithm, reproducible, timeout, name
        )

    cdef object reduce_scatterv(
        self, buf, op, counts, out, algorithm, reproducible, timeout
    ):
        cdef str name = "reduce_scatterv"
        if counts is None and out is None:
            raise TypeError(
                f"{name}: needs counts, or out with the rows of this rank; use "
                "reduce_scatter for blocks that differ by one row at most"
            )
        if counts is None:
            array_of(buf, name)
            args = self, buf, op, out, algorithm, reproducible, timeout
            rest = partial(scatter_reduced, *args)
            return self.after_lengths(array_of(out, name), name, timeout, rest)
        return self.reduce_scatter(
            buf, op, counts, out, algorithm, reproducible, timeout, name
        )

    cdef object scatter_converted(
        self, buf, tuple found, cnp.ndarray source, counts, out, algorithm, timeout,
        str caller
    ):
        """Scatter the reduction of converted elements."""
        way, inner = found
        inner = self.reduce_scatter(
            inner, way.op, counts, None, algorithm, way.reproducible, timeout, caller
        )
        shape = (len(inner), *(<object>source).shape[1:])
        result, target = result_array(buf, out, source, shape, caller)
        check_result(target, caller)
        self.convert_back(way, inner, target)
        return result

    cdef tuple uneven_block(
        self, cnp.ndarray source, int64_t rows, counts, str caller
    ):
        """The rows and the first row of my block, and the elements of all blocks."""
        counts = shares_of(rows, counts, self.size, caller)
        elements = elements_of(counts, source, caller)
        return counts[self.rank], sum(counts[: self.rank]), elements

    cdef object prefix(self, bint is_exclusive, buf, op, out, algorithm, timeout):
        """Run a scan or an exscan."""
        cdef str name = "exscan" if is_exclusive else "scan"
        cdef cnp.ndarray source = array_of(buf, name)
        cdef cnp.ndarray target = output_array(out, source, name)
        if needs_result(buf, out, source):
            out, target = in_place_of(buf, source, name)
            if is_exclusive and not self.rank:  # where the call writes nothing
                target[...] = source
        self.reduce_to(name, source, target, op, 0, algorithm, False, timeout)
        if self.rank == is_exclusive:  # which has one contribution
            self.end_single(op, target, name)
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


def scatter_reduced(
    Reducing runner, buf, op, out, algorithm, reproducible, timeout, lengths
):
    """Make a reduce_scatterv of blocks of these lengths."""
    return runner.reduce_scatterv(
        buf, op, lengths.ravel().tolist(), out, algorithm, reproducible, timeout
    )
