cimport cython
from libc.stdint cimport int64_t

from collalgo._kernels.engine.buffer_length cimport NONE
from collalgo._kernels.engine.rows cimport Rows
from collalgo._kernels.engine.template_tables cimport step_row
from collalgo._kernels.engine.transport.transport cimport Transport, segment_state

cdef enum:
    NOTHING = -1  # no progress is possible now
    PUT_BYTES = 16384  # below it a copy is faster than the look-up of an offer
    IN_PIECES = -1  # instead of the length of a message of several pieces

cdef struct message_state:
    int64_t piece, done, left


cdef class Messages(Rows):
    cdef int64_t *whole  # the bytes of messages of one piece, or IN_PIECES
    cdef message_state *progress
    cdef message_state *begins  # the progress at the begin of an unsliced call
    cdef segment_state *segments
    cdef int64_t *offers  # the messages whose destinations may be offered
    cdef readonly int64_t offers_end
    cdef int64_t *offer_places  # by channel, all 0 between two lengths
    cdef int64_t *forwards  # for each message the post that sends its sum, or NONE
    cdef int64_t *forwarded  # the bytes of each post that the reduction wrote, in a slice

    cdef void begin_message(self, int64_t m) noexcept nogil
    cdef void find_offers(self) noexcept nogil
    cdef int64_t *offer_place(self, int64_t m) noexcept nogil
    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil
    cdef void forget_segments(self) noexcept nogil

    @cython.final
    cdef inline bint has_one_piece(self, int64_t m) noexcept nogil:
        if m == NONE:
            return False
        return self.messages[m].end_piece - self.messages[m].first_piece == 1

    @cython.final
    cdef inline bint goes_on(self, int64_t m) noexcept nogil:
        """Whether a message has bytes left."""
        return self.progress[m].piece < self.messages[m].end_piece

    @cython.final
    cdef inline void skip_to(self, int64_t m, int64_t piece) noexcept nogil:
        """Continue a message at a piece, or at the first after it with bytes in this slice."""
        cdef message_state *state = &self.progress[m]
        if self.slices == 1:
            state.piece, state.done = piece, 0
            return
        while piece < self.messages[m].end_piece:
            state.done = self.bytes_until(&self.pieces[piece], self.slice)
            if state.done < self.bytes_until(&self.pieces[piece], self.slice + 1):
                break
            if self.pieces[piece].nbytes == 0:
                break
            piece += 1
        state.piece = piece

    @cython.final
    cdef inline void advance(self, int64_t m, int64_t nbytes) noexcept nogil:
        """Count bytes of a message as done."""
        cdef message_state *state = &self.progress[m]
        state.done += nbytes
        state.left -= nbytes
        if state.done == self.bytes_until(&self.pieces[state.piece], self.slice + 1):
            self.skip_to(m, state.piece + 1)

    @cython.final
    cdef inline bint is_last(self, int64_t m) noexcept nogil:
        """Whether the call of this rank ends with the step of a message."""
        cdef const step_row *last = &self.steps[self.steps_end - 1]
        if self.slice < self.slices - 1 or m < last.first_post:
            return False
        return last.first_receive == last.end
