# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The rows of a plan and the arrays of a call: where every byte lies, wave by wave.

A plan runs in waves: all its steps on the first part of every piece, then on the next.
So what a step leaves is still in the caches when the next step reads it, and neither the
memory that the ranks share nor the scratch of a rank need hold more than a wave.
"""

cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int64_t

import numpy as np

from collalgo._kernels.engine.reduction.reduce cimport Reduction
from collalgo._kernels.engine.transport.transport cimport GO_ON

cnp.import_array()


cdef void *address(cnp.ndarray array) except? NULL:
    if array.dtype != np.int64 or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError("the arrays of a plan are contiguous and of int64")
    return cnp.PyArray_DATA(array)


cdef class Rows:
    """The rows of one rank, bound to a reduction and to the arrays of a call.

    Parameters
    ----------
    plan : collalgo.engine.plan.rows.Plan
        The rows.
    reduction : Reduction or None
        The kernel, for collectives that reduce.
    divisor : int
        What complete sums are divided by; 0 for not at all.
    streamed : bool
        Whether results that are not read again had better go past the caches.
    abreast : bool
        Whether what others have staged had better be read out of several pages at once.
    """
    def __init__(
        self, plan, Reduction reduction, int64_t divisor, bint streamed, bint abreast
    ):
        self.plan = plan
        self.reduction = reduction
        self.divisor = divisor
        self.streamed, self.abreast = streamed, abreast
        self.waves = plan.waves
        self.scratch_bytes = plan.scratch_bytes
        self.steps_end = len(plan.steps)
        self.channels_end = len(plan.channels)
        self.copies_end = len(plan.copies)
        self.early_end = int((plan.copies[:, SOURCE] == INPUT).sum())
        self.divisions_end = len(plan.divisions)
        self.steps = <const step_row *>address(plan.steps)
        self.messages = <const message_row *>address(plan.messages)
        self.pieces = <const piece_row *>address(plan.pieces)
        self.channels = <const int64_t *>address(plan.channels)
        self.numbers = <const int64_t *>address(plan.numbers)
        self.hazards = <const int64_t *>address(plan.hazards)
        self.lendable = <const int64_t *>address(plan.lendable)
        self.copies = <const piece_row *>address(plan.copies)
        self.divisions = <const piece_row *>address(plan.divisions)
        self.reads = bool((plan.pieces[:, SOURCE] == INPUT).any() or len(plan.copies))
        self.room = [np.zeros(len(plan.channels) + 1, np.int64) for _ in range(2)]
        self.inputs = <const void **>address(self.room[0])
        self.targets = <char **>address(self.room[1])

    cdef int bind(
        self, array_bounds *arrays, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch
    ) except -100:
        """Find where the arrays of a call are: GO_ON, or what it needs."""
        if cnp.PyArray_NBYTES(scratch) < self.scratch_bytes:
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
        arrays.apart = not self.reads or arrays.base[0] != arrays.base[1]
        return GO_ON

    cdef int64_t length_in_wave(self, int64_t m) noexcept nogil:
        """How many bytes of a message belong to this wave."""
        cdef int64_t p, nbytes = 0
        for p in range(self.messages[m].first_piece, self.messages[m].end_piece):
            nbytes += self.bytes_until(&self.pieces[p], self.wave + 1)
            nbytes -= self.bytes_until(&self.pieces[p], self.wave)
        return nbytes

    cdef void copy_on(self, int64_t most) noexcept nogil:
        """Copy at most so many bytes of the next piece that no message brings."""
        cdef const piece_row *piece = &self.copies[self.copied]
        cdef int64_t first = self.bytes_until(piece, self.wave) + self.copied_bytes
        cdef int64_t nbytes = self.bytes_until(piece, self.wave + 1) - first
        cdef char *source = self.source_of(piece, first)
        cdef char *target = self.target_of(piece, first)
        if source == target or nbytes <= most:
            self.copied, self.copied_bytes = self.copied + 1, 0
        else:
            nbytes = most
            self.copied_bytes += most
        if source != target:
            self.store(target, source, nbytes, piece.action)

    cdef void finish(self) noexcept nogil:
        """Copy what is left that no message brought, and divide what came undivided."""
        cdef int64_t i, first, nbytes
        cdef const piece_row *piece
        cdef char *target
        while self.copied < self.copies_end:
            self.copy_on(INT64_MAX)
        for i in range(self.divisions_end):
            piece = &self.divisions[i]
            first = self.bytes_until(piece, self.wave)
            nbytes = self.bytes_until(piece, self.wave + 1) - first
            target = self.target_of(piece, first)
            self.inputs[0] = target
            self.reduce(target, 1, nbytes, REDUCE_AND_DIVIDE)
