"""The rows of :mod:`collalgo.engine.plan.rows`, as they lie in the arrays of a plan."""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.engine.reduction.reduce cimport (
    Reduction,
    float8_tables,
    reduce_fn,
)
from collalgo._kernels.engine.transport.transport cimport (
    CACHE_LINE,
    copy_bytes,
    copy_in_order,
    stream_bytes,
)

# The columns, in the order in which rows.py writes them. The offset of a piece is its
# place in the whole buffer; those of its source and target are places in their arrays.
cdef struct step_row:
    int64_t first_post, first_receive, end

cdef struct message_row:
    int64_t first_piece, end_piece, first_channel, end_channel
    int64_t own_place, first_hazard, end_hazard

cdef struct piece_row:
    int64_t offset, nbytes, source, source_offset, target, target_offset, action

cdef enum:
    COPY = 0
    REDUCE = 1
    REDUCE_AND_DIVIDE = 2
    STORE = 3
    INPUT = 0
    SCRATCH = 2  # which all waves share
    BYTES = 1     # the columns of a piece: its bytes and its source
    SOURCE = 2
    FIRST_CHANNEL = 2  # a column of a message
    NEEDS_PACKING = -2  # why a call cannot be bound
    NEEDS_SCRATCH = -3

cdef struct array_bounds:  # where the arrays of a call are
    char *base[3]
    bint apart


cdef extern from "relaying.h" nogil:
    ctypedef struct reduction:
        reduce_fn function
        const float8_tables *tables
        const void **inputs
        int64_t n, itemsize, divisor
    void relay(const reduction *r, char **targets, int64_t count, int64_t nbytes)
    void relay_past_caches(
        const reduction *r, char **targets, int64_t count, int64_t nbytes
    )


cdef void *address(cnp.ndarray array) except? NULL


cdef class Rows:
    cdef readonly object plan
    cdef Reduction reduction
    cdef int64_t divisor, scratch_bytes
    cdef int64_t waves, wave
    cdef int64_t steps_end, channels_end, copies_end, divisions_end
    cdef int64_t early_end  # of the copies that need not wait for any message
    cdef int64_t copied, copied_bytes  # in this wave, and of the piece after these
    cdef const step_row *steps
    cdef const message_row *messages
    cdef const piece_row *pieces
    cdef const int64_t *channels
    cdef const int64_t *numbers
    cdef const int64_t *hazards
    cdef const int64_t *lendable
    cdef const piece_row *copies
    cdef const piece_row *divisions
    cdef bint reads, streamed, abreast
    cdef array_bounds arrays
    cdef object room
    cdef const void **inputs  # of a reduction
    cdef char **targets  # the same result for me and for others

    cdef int bind(
        self, array_bounds *arrays, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch
    ) except -100
    cdef int64_t length_in_wave(self, int64_t m) noexcept nogil
    cdef void copy_on(self, int64_t most) noexcept nogil
    cdef void finish(self) noexcept nogil

    @cython.final
    cdef inline void begin_wave(self, int64_t wave) noexcept nogil:
        self.wave, self.copied, self.copied_bytes = wave, 0, 0

    @cython.final
    cdef inline int64_t bytes_until(
        self, const piece_row *piece, int64_t wave
    ) noexcept nogil:
        """How many bytes of a piece belong to the waves before this one."""
        if wave == 0:
            return 0
        if wave == self.waves:
            return piece.nbytes
        cdef int64_t lines = (piece.nbytes + CACHE_LINE - 1) // CACHE_LINE
        return lines * wave // self.waves * CACHE_LINE

    @cython.final
    cdef inline char *source_of(
        self, const piece_row *piece, int64_t done
    ) noexcept nogil:
        """Where a piece is to be read, when so many of its bytes are done."""
        return self.place(piece, piece.source, piece.source_offset) + done

    @cython.final
    cdef inline char *target_of(
        self, const piece_row *piece, int64_t done
    ) noexcept nogil:
        """Where a piece is to be written, when so many of its bytes are done."""
        return self.place(piece, piece.target, piece.target_offset) + done

    @cython.final
    cdef inline char *place(
        self, const piece_row *piece, int64_t array, int64_t offset
    ) noexcept nogil:
        """Where a piece would begin, were the part of this wave where it is."""
        if array == SCRATCH:
            offset -= self.bytes_until(piece, self.wave)
        return self.arrays.base[array] + offset

    @cython.final
    cdef inline bint is_streamed(self) noexcept nogil:
        """Whether what is not read again had better go past the caches."""
        # In place they hold the target already: it was the input.
        return self.streamed and self.arrays.apart

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
        """The same for so many targets."""
        cdef reduction r
        r.function, r.tables = self.reduction.function, self.reduction.tables
        r.inputs, r.n, r.itemsize = self.inputs, n, self.reduction.itemsize
        r.divisor = self.divisor if action == REDUCE_AND_DIVIDE else 0
        if self.is_streamed():
            relay_past_caches(&r, self.targets, count, nbytes)
        else:
            relay(&r, self.targets, count, nbytes)

    @cython.final
    cdef inline void store(
        self, char *target, const char *source, int64_t nbytes, int64_t action
    ) noexcept nogil:
        if action == STORE and self.is_streamed():
            stream_bytes(target, source, nbytes)
        elif self.abreast:
            copy_bytes(target, source, nbytes)
        else:
            copy_in_order(target, source, nbytes)
