from libc.stdint cimport int64_t

from collalgo._kernels.rows cimport Rows, message_row, piece_row, step_row
from collalgo._kernels.transport cimport Transport, segment_state

cdef enum:
    NOTHING = -1  # what can be done now

cdef struct message_state:
    int64_t piece, done, left


cdef class Steps(Rows):
    cdef const int64_t *whole  # the bytes of messages that are one piece, or IN_PIECES
    cdef readonly bint fetched
    cdef object states  # the memory of what follows
    cdef int64_t step, world  # where it is, in how many ranks
    cdef message_state *progress
    cdef const message_state *begins  # the progress at the begin, of a single wave
    cdef segment_state *segments

    cdef int run_step(self, Transport transport, int64_t number) noexcept nogil
    cdef int pause(self, Transport transport, int64_t *idle) noexcept nogil
    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil
    cdef int move(
        self, Transport transport, const step_row *step, int64_t *unfinished
    ) noexcept nogil
    cdef void forget_segments(self) noexcept nogil
    cdef bint goes_on(self, int64_t m) noexcept nogil
    cdef void skip_to(self, int64_t m, int64_t piece) noexcept nogil
    cdef void advance(self, int64_t m, int64_t nbytes) noexcept nogil
    cdef bint lend(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef int push(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef int pull(self, Transport transport, int64_t m) noexcept nogil
    cdef void consume(
        self, Transport transport, int64_t m, int64_t nbytes
    ) noexcept nogil
    cdef bint may_overwrite(
        self, const message_row *message, int64_t end
    ) noexcept nogil
    cdef void combine(
        self, const message_row *message, const piece_row *piece, int64_t done,
        int64_t nbytes
    ) noexcept nogil
