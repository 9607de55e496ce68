# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The steps of a plan: how their messages go on, segment by segment.

All transfers of a step progress side by side, in the order of the buffer. A segment is
received only once the posts of the same step have read what it overwrites. Every message
goes through the buffer in ascending order, so that a chain of ranks waiting for each
other's segments descends in the buffer: it cannot close.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

import numpy as np

from collalgo._kernels.reduce cimport Reduction
from collalgo._kernels.rows cimport (
    BYTES, COPY, STORE, Rows, address, message_row, piece_row, step_row,
)
from collalgo._kernels.transport cimport GO_ON, STOP, Transport, segment_state

cnp.import_array()

cdef enum:
    LEND_BYTES = 1024  # below it a copy is faster than the wait for who reads
    IN_PIECES = -1  # instead of the length of a message that is one piece
    ALWAYS = 1  # a post may be read where it is
    APART = 2   # or only if the result has memory of its own


cdef class Steps(Rows):
    """The steps of one rank, and how far the messages of one of them are.

    Parameters
    ----------
    plan, reduction, divisor, streamed
        As of :class:`Rows`.
    fetched : bool
        Whether it pays to read what is only copied from the memory of its process.
    """
    def __init__(
        self, plan, Reduction reduction, int64_t divisor, bint streamed, bint fetched
    ):
        Rows.__init__(self, plan, reduction, divisor, streamed)
        self.fetched = fetched
        lengths = np.array([
            plan.pieces[first:end, BYTES].sum()
            for first, end in plan.messages[:, :2].tolist()
        ], np.int64)
        one_piece = (plan.messages[:, 1] - plan.messages[:, 0] == 1) & (plan.waves == 1)
        self.states = (
            np.zeros((len(plan.messages), 3), np.int64),
            np.zeros((len(plan.channels), 3), np.int64),
            np.where(one_piece, lengths, IN_PIECES),
            np.stack([plan.messages[:, 0], np.zeros_like(lengths), lengths], axis=1),
        )
        self.progress = <message_state *>address(self.states[0])
        self.segments = <segment_state *>address(self.states[1])
        self.whole = <const int64_t *>address(self.states[2])
        self.begins = <const message_state *>address(self.states[3])

    cdef int run_step(self, Transport transport, int64_t number) noexcept nogil:
        """Run a step of this wave: GO_ON, or what :meth:`pause` gives."""
        cdef const step_row *step = &self.steps[number]
        cdef int64_t unfinished = self.begin(transport, step), idle = 0
        cdef int status
        self.step = number
        while unfinished:
            status = self.move(transport, step, &unfinished)
            if status == NOTHING:
                status = self.pause(transport, &idle)
            elif idle:
                transport.resume()
                idle = 0
            if status != GO_ON:
                return status
        return GO_ON

    cdef int pause(self, Transport transport, int64_t *idle) noexcept nogil:
        """Wait a little."""
        return transport.pause(idle)

    @cython.final
    cdef int64_t begin(self, Transport transport, const step_row *step) noexcept nogil:
        """Begin a step of this wave: the number of messages that it has."""
        cdef int64_t m, first = step.first_post, begun = step.end - first
        transport.begin_step(step.first_receive - first, self.waves == 1)
        if self.waves == 1:
            memcpy(
                &self.progress[first], &self.begins[first],
                begun * sizeof(message_state),
            )
            return begun
        for m in range(first, step.end):
            self.skip_to(m, self.messages[m].first_piece)
            self.progress[m].left = self.length_in_wave(m)
            if not self.goes_on(m):
                begun -= 1
        return begun

    @cython.final
    cdef int move(
        self, Transport transport, const step_row *step, int64_t *unfinished
    ) noexcept nogil:
        """Let all messages of the step go on that can: GO_ON, NOTHING or STOP."""
        cdef int status, moved = NOTHING
        cdef int64_t m
        for m in range(step.first_post, step.end):
            if not self.goes_on(m):
                continue
            if m < step.first_receive:
                status = self.push(transport, m, m - step.first_post)
            else:
                status = self.pull(transport, m)
            if status == STOP:
                return STOP
            if status == GO_ON:
                moved = GO_ON
                if not self.goes_on(m):
                    unfinished[0] -= 1
        return moved

    @cython.final
    cdef bint goes_on(self, int64_t m) noexcept nogil:
        """Whether there is more of a message."""
        return self.progress[m].piece < self.messages[m].end_piece

    @cython.final
    cdef void skip_to(self, int64_t m, int64_t piece) noexcept nogil:
        """Let a message go on at a piece, or at the first after it with any bytes."""
        cdef message_state *state = &self.progress[m]
        if self.waves == 1:
            state.piece, state.done = piece, 0
            return
        while piece < self.messages[m].end_piece:
            state.done = self.bytes_until(&self.pieces[piece], self.wave)
            if state.done < self.bytes_until(&self.pieces[piece], self.wave + 1):
                break
            if self.pieces[piece].nbytes == 0:
                break
            piece += 1
        state.piece = piece

    @cython.final
    cdef bint lend(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Let the next piece of a post be read where it is; whether that is possible."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef int64_t nbytes = self.bytes_until(piece, self.wave + 1) - state.done
        if nbytes < LEND_BYTES or not transport.lend(
            post, &self.channels[message.first_channel],
            message.end_channel - message.first_channel,
            self.source_of(piece, state.done), nbytes, self.fetched,
        ):
            return False
        self.advance(m, nbytes)
        return True

    @cython.final
    cdef int push(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Send the next segment of a post: GO_ON, or NOTHING if it has to wait."""
        cdef const message_row *message = &self.messages[m]
        cdef const int64_t *channels = &self.channels[message.first_channel]
        cdef int64_t readers = message.end_channel - message.first_channel
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece
        cdef int64_t room, filled = 0, nbytes
        if state.left >= LEND_BYTES and (
            self.lendable[m] == ALWAYS or self.lendable[m] == APART and self.arrays.apart
        ):
            if self.lend(transport, m, post):
                return GO_ON
        if 0 <= self.whole[m] <= transport.whole:
            piece = &self.pieces[state.piece]
            if transport.post(
                channels, readers, self.source_of(piece, 0), piece.nbytes
            ):
                state.piece += 1
                return GO_ON
        cdef char *slot = transport.reserve(post, channels, readers, state.left, &room)
        if slot == NULL:
            return NOTHING
        while True:
            piece = &self.pieces[state.piece]
            nbytes = min(room - filled, self.bytes_until(piece, self.wave + 1) - state.done)
            transport.fill(
                channels, slot + filled, self.source_of(piece, state.done), nbytes
            )
            filled += nbytes
            self.advance(m, nbytes)
            if filled == room:
                break
        transport.commit(post, channels, readers, room)
        return GO_ON

    @cython.final
    cdef int pull(self, Transport transport, int64_t m) noexcept nogil:
        """Receive what has come from all peers of a receive: GO_ON, NOTHING or STOP."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef const int64_t *channels = &self.channels[message.first_channel]
        cdef segment_state *segment = &self.segments[message.first_channel]
        cdef int64_t senders = message.end_channel - message.first_channel, i
        if not transport.peek(channels, senders, segment):
            return NOTHING
        cdef int64_t nbytes = self.bytes_until(piece, self.wave + 1) - state.done
        for i in range(senders):
            nbytes = min(nbytes, segment[i].left)
        if not self.may_overwrite(message, piece.offset + state.done + nbytes):
            return NOTHING
        cdef char *target = self.target_of(piece, state.done)
        if piece.action != COPY and piece.action != STORE:
            self.combine(message, piece, state.done, nbytes)
        elif not segment.remote:
            self.store(target, segment.data, nbytes, piece.action)
        elif transport.fetch(channels[0], target, segment.data, nbytes) != GO_ON:
            return STOP
        if nbytes == self.whole[m]:
            for i in range(senders):
                segment[i].data = NULL
            transport.release(channels, senders)
            state.piece += 1
        else:
            self.consume(transport, m, nbytes)
        return GO_ON

    @cython.final
    cdef void consume(
        self, Transport transport, int64_t m, int64_t nbytes
    ) noexcept nogil:
        """Go on behind what has been received of a message, from each of its peers."""
        cdef const message_row *message = &self.messages[m]
        cdef segment_state *segment
        cdef int64_t c
        for c in range(message.first_channel, message.end_channel):
            segment = &self.segments[c]
            segment.data += nbytes
            segment.left -= nbytes
            if segment.left == 0:
                segment.data = NULL
                transport.release(&self.channels[c], 1)
        self.advance(m, nbytes)

    @cython.final
    cdef void advance(self, int64_t m, int64_t nbytes) noexcept nogil:
        cdef message_state *state = &self.progress[m]
        state.done += nbytes
        state.left -= nbytes
        if state.done == self.bytes_until(&self.pieces[state.piece], self.wave + 1):
            self.skip_to(m, state.piece + 1)

    @cython.final
    cdef bint may_overwrite(
        self, const message_row *message, int64_t end
    ) noexcept nogil:
        """Whether all posts that read from where I write have read up to ``end``."""
        cdef int64_t h, post
        cdef message_state *state
        for h in range(message.first_hazard, message.end_hazard):
            post = self.hazards[h]
            state = &self.progress[post]
            if self.goes_on(post):
                if self.pieces[state.piece].offset + state.done < end:
                    return False
        return True

    @cython.final
    cdef void combine(
        self, const message_row *message, const piece_row *piece, int64_t done,
        int64_t nbytes
    ) noexcept nogil:
        """Reduce all inputs in the order of the ranks, my own value in its place."""
        cdef char *own = self.source_of(piece, done)
        cdef int64_t n = 0, c
        for c in range(message.first_channel, message.end_channel):
            if n == message.own_place:
                self.inputs[n] = own
                n += 1
            self.inputs[n] = self.segments[c].data
            n += 1
        if n == message.own_place:
            self.inputs[n] = own
            n += 1
        self.reduce(self.target_of(piece, done), n, nbytes, piece.action)

    cdef void forget_segments(self) noexcept nogil:
        """Forget what has come and was not consumed: the call has failed."""
        memset(self.segments, 0, self.channels_end * sizeof(segment_state))
