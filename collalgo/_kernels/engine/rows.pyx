# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The rows of a plan and the arrays of a call: the address of every byte.

A pipelined plan runs in slices: all its steps on the first slice of every piece, then on
the next. So the result of a step is still in the caches when the next step reads it, and
the shared memory and the scratch of a rank hold one slice only.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int64_t

from collalgo._kernels.engine.borders cimport INPUT
from collalgo._kernels.engine.buffer_length cimport buffer_length
from collalgo._kernels.engine.filling cimport Filling, piece_row
from collalgo._kernels.engine.reduction.reduce cimport Reduction
from collalgo._kernels.engine.reduction.user_op cimport PythonReduction

cnp.import_array()


cdef int64_t number_of_input(const piece_row *pieces, int64_t count) noexcept nogil:
    """The number of pieces that are read from the input."""
    cdef int64_t i, n = 0
    for i in range(count):
        n += pieces[i].source == INPUT
    return n


cdef class Rows(Filling):
    """The rows of one rank, bound to a reduction and to the arrays of a call.

    Parameters
    ----------
    template
        As of :class:`Filling`.
    reduction : Reduction or None
        The kernel, for collectives that reduce.
    divisor : int
        The divisor of complete sums; 0 for none.
    copying : collalgo.engine.plan.copying.Copying
        How messages and results are copied.
    """
    def __init__(self, template, Reduction reduction, int64_t divisor, copying):
        Filling.__init__(self, template)
        self.is_python_op = isinstance(reduction, PythonReduction)
        if self.is_python_op:
            reduction = (<PythonReduction>reduction).for_program()
        self.reduction = reduction
        self.divisor = divisor
        self.streamed, self.interleaved = copying.streamed, copying.interleaved
        self.inputs = <const void **>self.room(self.channels_end + 1)
        self.targets = <char **>self.room(self.channels_end + 1)

    cdef int fill(self, const buffer_length *length) except -1:
        """Fill in the bytes of a buffer of some length."""
        Filling.fill(self, length)
        self.early_end = number_of_input(self.copies, self.copies_end)
        self.reads = self.copies_end or number_of_input(self.pieces, self.pieces_end)
        return 0

    @cython.final
    cdef int64_t length_in_slice(self, int64_t m) noexcept nogil:
        """The bytes of a message in this slice."""
        cdef int64_t p, nbytes = 0
        for p in range(self.messages[m].first_piece, self.messages[m].end_piece):
            nbytes += self.bytes_until(&self.pieces[p], self.slice + 1)
            nbytes -= self.bytes_until(&self.pieces[p], self.slice)
        return nbytes

    @cython.final
    cdef void copy_on(self, int64_t most) noexcept nogil:
        """Copy at most ``most`` bytes of the next piece that no message brings."""
        cdef const piece_row *piece = &self.copies[self.copied]
        cdef int64_t first = self.bytes_until(piece, self.slice) + self.copied_bytes
        cdef int64_t nbytes = self.bytes_until(piece, self.slice + 1) - first
        cdef char *source = self.source_of(piece, first)
        cdef char *target = self.target_of(piece, first)
        if source == target or nbytes <= most:
            self.copied, self.copied_bytes = self.copied + 1, 0
        else:
            nbytes = most
            self.copied_bytes += most
        if source != target:
            self.store(target, source, nbytes, piece.action)

    @cython.final
    cdef void finish(self) noexcept nogil:
        """Copy the remaining pieces that no message brings, and divide undivided sums."""
        cdef int64_t i, first, nbytes
        cdef const piece_row *piece
        cdef char *target
        while self.copied < self.copies_end:
            self.copy_on(INT64_MAX)
        for i in range(self.divisions_end):
            piece = &self.divisions[i]
            first = self.bytes_until(piece, self.slice)
            nbytes = self.bytes_until(piece, self.slice + 1) - first
            target = self.target_of(piece, first)
            self.inputs[0] = target
            self.reduce(target, 1, nbytes, REDUCE_AND_DIVIDE)
