"""The rows of a plan and the arrays of a call."""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.engine.borders cimport SCRATCH
from collalgo._kernels.engine.buffer_length cimport buffer_length
from collalgo._kernels.engine.filling cimport Filling, piece_row
from collalgo._kernels.engine.reduction.reduce cimport (
    Reduction,
    float8_tables,
    reduce_fn,
)
from collalgo._kernels.engine.transport.transport cimport (
    CACHE_LINE,
    GO_ON,
    copy_bytes,
    copy_in_order,
    stream_bytes,
)

cdef enum:
    COPY = 0
    REDUCE = 1
    REDUCE_AND_DIVIDE = 2
    STORE = 3
    NEEDS_PACKING = -2  # reasons why a call cannot be bound
    NEEDS_SCRATCH = -3

cdef struct array_bounds:  # the arrays of a call: input, output, scratch
    char *base[3]
    bint are_disjoint


cdef extern from "reduce_forward.h" nogil:
    ctypedef struct reduction:
        reduce_fn function
        const float8_tables *tables
        const void **inputs
        int64_t n, itemsize, divisor
    void reduce_forward(const reduction *r, char **targets, int64_t count, int64_t nbytes)
    void reduce_forward_streamed(
        const reduction *r, char **targets, int64_t count, int64_t nbytes
    )


cdef class Rows(Filling):
    cdef Reduction reduction
    cdef int64_t divisor, slice
    cdef int64_t early_end  # of the copies that depend on no message
    cdef int64_t copied, copied_bytes  # pieces in this slice, and bytes of the next one
    cdef bint reads, streamed, interleaved
    cdef bint is_python_op  # whether its op may raise
    cdef array_bounds arrays
    cdef const void **inputs  # of a reduction
    cdef char **targets  # of a reduction: this rank, then the readers of its forward

    cdef int64_t length_in_slice(self, int64_t m) noexcept nogil
    cdef void copy_on(self, int64_t most) noexcept nogil
    cdef void finish(self) noexcept nogil

    @cython.final
    cdef inline int bind(
        self, array_bounds *arrays, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch
    ) noexcept:
        """Bind the arrays of a call: GO_ON, or the reason why they cannot be bound."""
        if self.scratch_bytes and cnp.PyArray_NBYTES(scratch) < self.scratch_bytes:
            return NEEDS_SCRATCH
        arrays.base[0] = arrays.base[1] = NULL
        arrays.base[2] = cnp.PyArray_BYTES(scratch)
        if source is not None:
            if not cnp.PyArray_CHKFLAGS(source, cnp.NPY_ARRAY_CARRAY_RO):
                return NEEDS_PACKING
            arrays.base[0] = cnp.PyArray_BYTES(source)
        if target is not None:
            if not cnp.PyArray_CHKFLAGS(target, cnp.NPY_ARRAY_CARRAY):
                return NEEDS_PACKING
            arrays.base[1] = cnp.PyArray_BYTES(target)
        arrays.are_disjoint = not self.reads or arrays.base[0] != arrays.base[1]
        return GO_ON

    @cython.final
    cdef inline void begin_slice(self, int64_t slice) noexcept nogil:
        self.slice, self.copied, self.copied_bytes = slice, 0, 0

    @cython.final
    cdef inline int64_t bytes_until(
        self, const piece_row *piece, int64_t slice
    ) noexcept nogil:
        """The bytes of a piece in the slices before a slice."""
        if slice == 0:
            return 0
        if slice == self.slices:
            return piece.nbytes
        cdef int64_t lines = (piece.nbytes + CACHE_LINE - 1) // CACHE_LINE
        return lines * slice // self.slices * CACHE_LINE

    @cython.final
    cdef inline char *source_of(
        self, const piece_row *piece, int64_t done
    ) noexcept nogil:
        """The address to read a piece from, after its first ``done`` bytes."""
        return self.place(piece, piece.source, piece.source_offset) + done

    @cython.final
    cdef inline char *target_of(
        self, const piece_row *piece, int64_t done
    ) noexcept nogil:
        """The address to write a piece to, after its first ``done`` bytes."""
        return self.place(piece, piece.target, piece.target_offset) + done

    @cython.final
    cdef inline char *place(
        self, const piece_row *piece, int64_t array, int64_t offset
    ) noexcept nogil:
        """The address of a piece, offset such that this slice is in place."""
        if array == SCRATCH:
            offset -= self.bytes_until(piece, self.slice)
        return self.arrays.base[array] + offset

    @cython.final
    cdef inline bint is_streamed(self) noexcept nogil:
        """Whether results that are not read again are written past the caches."""
        # In place the caches hold the target already: it was the input.
        return self.streamed and self.arrays.are_disjoint

    @cython.final
    cdef inline void reduce(
        self, void *target, int64_t n, int64_t nbytes, int64_t action
    ) noexcept nogil:
        self.reduction.function(
            target, self.inputs, n, nbytes // self.reduction.itemsize,
            self.divisor if action == REDUCE_AND_DIVIDE else 0, self.reduction.tables,
        )

    @cython.final
    cdef inline void reduce_for_all(
        self, int64_t n, int64_t count, int64_t nbytes, int64_t action
    ) noexcept nogil:
        """The same for the first ``count`` targets."""
        cdef reduction r
        r.function, r.tables = self.reduction.function, self.reduction.tables
        r.inputs, r.n, r.itemsize = self.inputs, n, self.reduction.itemsize
        r.divisor = self.divisor if action == REDUCE_AND_DIVIDE else 0
        if self.is_streamed():
            reduce_forward_streamed(&r, self.targets, count, nbytes)
        else:
            reduce_forward(&r, self.targets, count, nbytes)

    @cython.final
    cdef inline void store(
        self, char *target, const char *source, int64_t nbytes, int64_t action
    ) noexcept nogil:
        if action == STORE and self.is_streamed():
            stream_bytes(target, source, nbytes)
        elif self.interleaved:
            copy_bytes(target, source, nbytes)
        else:
            copy_in_order(target, source, nbytes)
