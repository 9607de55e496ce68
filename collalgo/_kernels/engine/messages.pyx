# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a rank, and their progress in the current step."""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memset

from collalgo._kernels.engine.buffer_length cimport NONE, buffer_length
from collalgo._kernels.engine.reduction.reduce cimport Reduction
from collalgo._kernels.engine.rows cimport Rows
from collalgo._kernels.engine.template_tables cimport step_row
from collalgo._kernels.engine.transport.transport cimport Transport, segment_state


cdef class Messages(Rows):
    """The messages of one rank, those that it sends and those that it receives.

    Parameters
    ----------
    template, reduction, divisor, copying
        As of :class:`Rows`.
    """
    def __init__(self, template, Reduction reduction, int64_t divisor, copying):
        Rows.__init__(self, template, reduction, divisor, copying)
        cdef int64_t n = self.full.messages_end
        self.progress = <message_state *>self.room(3 * n)
        self.begins = <message_state *>self.room(3 * n)
        self.segments = <segment_state *>self.room(3 * self.channels_end)
        self.whole = <int64_t *>self.room(n)
        self.offers = <int64_t *>self.room(n)
        self.offer_places = <int64_t *>self.room(self.lanes)
        self.forwards = <int64_t *>self.room(n)
        self.forwarded = <int64_t *>self.room(n)

    cdef int fill(self, const buffer_length *length) except -1:
        """Fill in the bytes of a buffer of some length."""
        cdef int64_t m
        Rows.fill(self, length)
        for m in range(self.tables.messages_end):
            self.begin_message(m)
        self.find_offers()
        return 0

    @cython.final
    cdef void begin_message(self, int64_t m) noexcept nogil:
        """Set the initial progress of a message, and the values set by its length."""
        cdef message_state *state = &self.begins[m]
        cdef int64_t p, forward = self.tables.forwards[m]
        state.piece, state.done, state.left = self.messages[m].first_piece, 0, 0
        for p in range(state.piece, self.messages[m].end_piece):
            state.left += self.pieces[p].nbytes
        self.whole[m], self.forwards[m], self.forwarded[m] = IN_PIECES, NONE, 0
        if self.has_one_piece(m):
            if self.slices == 1:
                self.whole[m] = state.left
            if self.has_one_piece(forward):
                self.forwards[m] = forward

    @cython.final
    cdef void find_offers(self) noexcept nogil:
        """Find the last long message of each channel, which has room for one offer."""
        cdef int64_t step, m, i
        cdef int64_t *place
        self.offers_end = 0
        for step in range(self.steps_end):
            for m in range(self.steps[step].first_receive, self.steps[step].end):
                if (
                    self.begins[m].left < PUT_BYTES or not self.tables.direct[m]
                    or not self.has_one_piece(m)
                ):
                    continue
                place = self.offer_place(m)
                if place[0] == 0:
                    self.offers_end += 1
                    place[0] = self.offers_end
                self.offers[place[0] - 1] = m
        for i in range(self.offers_end):
            self.offer_place(self.offers[i])[0] = 0

    @cython.final
    cdef int64_t *offer_place(self, int64_t m) noexcept nogil:
        """The place, from 1, of the offer of the channel of a message; 0 for none yet."""
        return &self.offer_places[self.channels[self.messages[m].first_channel]]

    @cython.final
    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil:
        """Begin a step of this slice; return the number of its messages."""
        cdef int64_t m, first = step.first_post, begun = step.end - first
        transport.begin_step(step.first_receive - first, self.slices == 1)
        if self.slices == 1:
            for m in range(first, step.end):  # mostly two, for which memcpy takes longer
                self.progress[m] = self.begins[m]
            return begun
        for m in range(first, step.end):
            self.skip_to(m, self.messages[m].first_piece)
            self.progress[m].left = self.length_in_slice(m)
            if not self.goes_on(m):
                begun -= 1
        return begun

    cdef void forget_segments(self) noexcept nogil:
        """Drop segments that were not consumed, after a failed call."""
        memset(self.segments, 0, self.channels_end * sizeof(segment_state))
