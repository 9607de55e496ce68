cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.reduce cimport Reduction
from collalgo._kernels.transport cimport (
    Transport, call_record, segment_state, step_log
)

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass

# The columns of the plan's arrays, in the order in which rows.py writes them. The
# offset of a piece is its place in the whole buffer; those of its source and target are
# places in their arrays.
cdef struct step_row:
    int64_t first_post, first_receive, end

cdef struct message_row:
    int64_t first_piece, end_piece, first_channel, end_channel
    int64_t own_place, first_hazard, end_hazard

cdef struct piece_row:
    int64_t offset, nbytes, source, source_offset, target, target_offset, action

cdef enum:
    BRIEF_BYTES = 16384  # what is copied in about the time of releasing the GIL
    LEND_BYTES = 1024  # below it a copy is faster than the wait for who reads
    ALWAYS = 1  # a post may be read where it is
    APART = 2   # or only if the result has memory of its own
    COPY = 0
    REDUCE = 1
    REDUCE_AND_DIVIDE = 2
    STORE = 3

cdef struct array_bounds:  # where the arrays of a call are
    char *base[3]
    bint apart

cdef struct message_state:
    int64_t piece, done, left


@cython.final
cdef class Program:
    cdef readonly object plan
    cdef Reduction reduction
    cdef int64_t divisor, scratch_bytes
    cdef int64_t steps_end, copies_end, divisions_end, channels_end
    cdef int64_t waves, wave, step, world
    cdef const step_row *steps
    cdef const message_row *messages
    cdef const piece_row *pieces
    cdef const piece_row *copies
    cdef const piece_row *divisions
    cdef const int64_t *channels
    cdef const int64_t *hazards
    cdef message_state *progress
    cdef const message_state *begins  # the progress at the begin, of a single wave
    cdef segment_state *segments
    cdef const void **inputs
    cdef const int64_t *lendable
    cdef const int64_t *whole  # the bytes of messages that are one piece, or IN_PIECES
    cdef PyThreadState *thread  # this one, once it has released the GIL
    cdef bint has_gil, brief, reads, streamed
    cdef readonly bint fetched
    cdef object states
    cdef call_record record
    cdef array_bounds arrays

    cdef int bind(
        self, array_bounds *arrays, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch
    ) except -100
    cdef int run_without_gil(
        self, Transport transport, const array_bounds *arrays, double timeout
    ) noexcept nogil

    cpdef int run(
        self, Transport transport, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double timeout
    ) except -100
    cdef void release_gil(self) noexcept nogil
    cdef int execute(self, Transport transport, double timeout) noexcept nogil
    cdef int run_waves(self, Transport transport) noexcept nogil
    cdef void forget_segments(self) noexcept nogil
    cdef int run_step(self, Transport transport, const step_row *step) noexcept nogil
    cdef int run_logged(self, Transport transport, step_log *log) noexcept nogil
    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil
    cdef int64_t length_in_wave(self, int64_t m) noexcept nogil
    cdef int64_t bytes_until(self, const piece_row *piece, int64_t wave) noexcept nogil
    cdef bint lend(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef bint push(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef int pull(self, Transport transport, int64_t m) noexcept nogil
    cdef void consume(
        self, Transport transport, int64_t m, int64_t nbytes
    ) noexcept nogil
    cdef char *source_of(self, const piece_row *piece, int64_t done) noexcept nogil
    cdef char *target_of(self, const piece_row *piece, int64_t done) noexcept nogil
    cdef char *place(
        self, const piece_row *piece, int64_t array, int64_t offset
    ) noexcept nogil
    cdef void skip_to(self, int64_t m, int64_t piece) noexcept nogil
    cdef void advance(self, int64_t m, int64_t nbytes) noexcept nogil
    cdef bint may_overwrite(
        self, const message_row *message, int64_t end
    ) noexcept nogil
    cdef void combine(
        self, const message_row *message, const piece_row *piece, int64_t done,
        int64_t nbytes
    ) noexcept nogil
    cdef void reduce(
        self, void *target, int64_t n, int64_t nbytes, int64_t action
    ) noexcept nogil
    cdef int settle(self, Transport transport) noexcept nogil
    cdef int pause(self, Transport transport, int64_t *idle) noexcept nogil
    cdef void store(
        self, char *target, const char *source, int64_t nbytes, int64_t action
    ) noexcept nogil
    cdef void finish(self) noexcept nogil
