# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The steps of a plan: how their messages go on, segment by segment.

All transfers of a step progress side by side, in the order of the buffer. A segment is
received only once the posts of the same step have read what it overwrites. Every message
goes through the buffer in ascending order, so that a chain of ranks waiting for each
other's segments descends in the buffer: it cannot close.
"""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memset

from collalgo._kernels.engine.posts cimport Posts, message_state
from collalgo._kernels.engine.rows cimport COPY, STORE, message_row, piece_row, step_row
from collalgo._kernels.engine.transport.transport cimport (
    GO_ON,
    DELIVERED,
    REMOTE,
    STOP,
    Transport,
    segment_state,
)

cdef enum:
    WHILE_WAITING = 1 << 14  # bytes that a rank copies before it looks again what came


cdef class Steps(Posts):
    """The steps of one rank, and what comes in them; see :class:`Posts`."""

    cdef int run_step(self, Transport transport, int64_t number) noexcept nogil:
        """Run a step of this wave: GO_ON, or what :meth:`pause` gives."""
        cdef const step_row *step = &self.steps[number]
        cdef int64_t unfinished = self.begin(transport, step), idle = 0
        cdef int status
        self.step = number
        while unfinished:
            status = self.move(transport, step, &unfinished)
            if status == NOTHING and self.copied < self.early_end:
                self.copy_on(WHILE_WAITING)
                status = GO_ON
            elif status == NOTHING:
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
            self.combine(transport, m, state.done, nbytes)
        elif segment.whereabouts == REMOTE:
            if transport.fetch(channels[0], target, segment.data, nbytes) != GO_ON:
                return STOP
        elif segment.whereabouts != DELIVERED:
            self.store(target, segment.data, nbytes, piece.action)
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
        self, Transport transport, int64_t m, int64_t done, int64_t nbytes
    ) noexcept nogil:
        """Reduce all inputs in the order of the ranks, my own value in its place."""
        cdef const message_row *message = &self.messages[m]
        cdef const piece_row *piece = &self.pieces[self.progress[m].piece]
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
        cdef char *target = self.target_of(piece, done)
        cdef int64_t others = self.aim(transport, self.relays[m], done, nbytes)
        if others:
            self.targets[0] = target
            self.reduce_for_all(n, 1 + others, nbytes, piece.action)
        else:
            self.reduce(target, n, nbytes, piece.action)

    cdef void forget_segments(self) noexcept nogil:
        """Forget what has come and was not consumed: the call has failed."""
        memset(self.segments, 0, self.channels_end * sizeof(segment_state))
