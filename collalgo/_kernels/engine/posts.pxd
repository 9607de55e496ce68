from libc.stdint cimport int64_t

from collalgo._kernels.engine.rows cimport Rows, piece_row, step_row
from collalgo._kernels.engine.transport.transport cimport (
    Transport,
    message_part,
    segment_state,
)

cdef enum:
    NOTHING = -1  # what can be done now
    NONE = -1     # instead of a message

cdef struct message_state:
    int64_t piece, done, left


cdef class Posts(Rows):
    cdef const int64_t *whole  # the bytes of messages that are one piece, or IN_PIECES
    cdef readonly bint fetched
    cdef int fetch, mapped  # what others read where it is: of my process, and of the heap
    cdef object states  # the memory of what follows
    cdef message_state *progress
    cdef const message_state *begins  # the progress at the begin, of a single wave
    cdef segment_state *segments
    cdef const int64_t *offers  # the messages that may be written where they belong
    cdef readonly int64_t offers_end
    cdef const int64_t *relays  # for each message the one that sends its sum on, or NONE
    cdef int64_t *relayed  # how many bytes of each were written as they were made, in a wave

    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil
    cdef bint goes_on(self, int64_t m) noexcept nogil
    cdef void skip_to(self, int64_t m, int64_t piece) noexcept nogil
    cdef void advance(self, int64_t m, int64_t nbytes) noexcept nogil
    cdef bint may_share(self, int64_t m) noexcept nogil
    cdef int share(self, int64_t m) noexcept nogil
    cdef bint is_last(self, int64_t m) noexcept nogil
    cdef void offer(self, Transport transport) noexcept nogil
    cdef message_part part_of(
        self, int64_t post, const piece_row *piece, int64_t done, int64_t nbytes
    ) noexcept nogil
    cdef int64_t aim(
        self, Transport transport, int64_t post, int64_t done, int64_t nbytes
    ) noexcept nogil
    cdef int put(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef bint lend(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef int push(self, Transport transport, int64_t m, int64_t post) noexcept nogil
