# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The steps of a plan: the progress of their messages, segment by segment.

All transfers of a step progress concurrently, in the order of the buffer. A segment is
received only once the posts of the same step have read the bytes that it overwrites.
There is no deadlock: every message goes through the buffer in ascending order, so a
chain of ranks that wait for each other descends in the buffer and cannot close.
"""

cimport cython
from libc.stdint cimport int64_t

from collalgo._kernels.engine.filling cimport piece_row
from collalgo._kernels.engine.messages cimport NOTHING, message_state
from collalgo._kernels.engine.posts cimport Posts
from collalgo._kernels.engine.rows cimport COPY, STORE
from collalgo._kernels.engine.template_tables cimport message_row, step_row
from collalgo._kernels.engine.transport.transport cimport (
    ANNOUNCED,
    GO_ON,
    DELIVERED,
    REMOTE,
    STOP,
    Transport,
    segment_state,
)

cdef enum:
    WHILE_WAITING = 1 << 14  # bytes that a rank copies between two polls


cdef inline int64_t received_by_all(
    const segment_state *segments, int64_t senders, int64_t most
) noexcept nogil:
    """The bytes of a message that have arrived from all senders, up to some limit."""
    cdef int64_t i
    for i in range(senders):
        most = min(most, segments[i].left)
    return most


cdef class Steps(Posts):
    """The steps of one rank, and its receives; see :class:`Posts`."""

    cdef int run_step(self, Transport transport, int64_t number) noexcept nogil:
        """Run a step of this slice: GO_ON, or the status of :meth:`pause`."""
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
        """Pause once, after a poll without progress."""
        return transport.pause(idle)

    @cython.final
    cdef int move(
        self, Transport transport, const step_row *step, int64_t *unfinished
    ) noexcept nogil:
        """Continue all messages of the step: GO_ON, NOTHING or STOP."""
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
        """Receive the bytes that have arrived from all peers: GO_ON, NOTHING or STOP."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef const int64_t *channels = &self.channels[message.first_channel]
        cdef segment_state *segments = &self.segments[message.first_channel]
        cdef int64_t senders = message.end_channel - message.first_channel, nbytes
        if not transport.peek(channels, senders, segments):
            return self.accept(transport, m) if transport.carries else NOTHING
        nbytes = self.bytes_until(piece, self.slice + 1) - state.done
        nbytes = received_by_all(segments, senders, nbytes)
        if not self.may_overwrite(message, piece.offset + state.done + nbytes):
            return NOTHING
        if self.take(transport, m, nbytes) != GO_ON:
            return STOP
        if nbytes == self.whole[m]:
            release_whole(self, transport, m)
        else:
            self.consume(transport, m, nbytes)
        return GO_ON

    @cython.final
    cdef int accept(self, Transport transport, int64_t m) noexcept nogil:
        """Accept what other hosts have announced of a message: NOTHING."""
        cdef const message_row *message = &self.messages[m]
        cdef segment_state *segment
        cdef int64_t c, room
        cdef char *target
        for c in range(message.first_channel, message.end_channel):
            segment = &self.segments[c]
            if segment.data == NULL and segment.location == ANNOUNCED:
                target = self.place_for(m, segment.left, &room)
                transport.accept(self.channels[c], target, segment.left, room)
        return NOTHING

    @cython.final
    cdef char *place_for(self, int64_t m, int64_t nbytes, int64_t *room) noexcept nogil:
        """The target of the next bytes of a message; NULL if they are to be staged.

        They are if they are reduced, come in another piece, or a post still reads the
        target. ``room`` is the number of bytes after them that may arrive likewise.
        """
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef int64_t last = self.bytes_until(piece, self.slice + 1)
        cdef int64_t end = state.done + nbytes
        cdef bint is_reduced = piece.action != COPY and piece.action != STORE
        room[0] = max(last - end, 0)
        if is_reduced:
            return NULL
        if not self.may_overwrite(message, piece.offset + last):
            room[0] = 0
            if not self.may_overwrite(message, piece.offset + end):
                return NULL
        return self.target_of(piece, state.done) if end <= last else NULL

    @cython.final
    cdef int take(self, Transport transport, int64_t m, int64_t nbytes) noexcept nogil:
        """Reduce or copy the next bytes of a message to their target: GO_ON or STOP."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef segment_state *segment = &self.segments[message.first_channel]
        cdef char *target = self.target_of(piece, state.done)
        if piece.action != COPY and piece.action != STORE:
            self.combine(transport, m, state.done, nbytes)
        elif segment.location == REMOTE:
            return transport.fetch(
                self.channels[message.first_channel], target, segment.data, nbytes
            )
        elif segment.location != DELIVERED:
            self.store(target, segment.data, nbytes, piece.action)
        return GO_ON

    @cython.final
    cdef void consume(
        self, Transport transport, int64_t m, int64_t nbytes
    ) noexcept nogil:
        """Count received bytes of a message as done, on each of its channels."""
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
        """Whether all posts that read the target of a receive have read up to ``end``."""
        cdef int64_t h, post
        cdef message_state *state
        for h in range(message.first_hazard, message.end_hazard):
            post = self.tables.hazards[h]
            state = &self.progress[post]
            if self.goes_on(post):
                if self.pieces[state.piece].offset + state.done < end:
                    return False
        return True

    @cython.final
    cdef void combine(
        self, Transport transport, int64_t m, int64_t done, int64_t nbytes
    ) noexcept nogil:
        """Reduce all inputs in the order of the ranks, with the own value in its place."""
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
        cdef int64_t others = self.locate(transport, self.forwards[m], done, nbytes)
        if others:
            self.targets[0] = target
            self.reduce_for_all(n, 1 + others, nbytes, piece.action)
        else:
            self.reduce(target, n, nbytes, piece.action)

    def position(self):
        """The current step of a running program, and the ranks that it waits for."""
        cdef int64_t step = self.step, m, c
        peers = set()
        if step < self.steps_end:
            for m in range(self.steps[step].first_post, self.steps[step].end):
                if self.goes_on(m):
                    for c in range(
                        self.messages[m].first_channel, self.messages[m].end_channel
                    ):
                        peers.add(self.channels[c] % max(self.world, 1))
        return {"step": step, "peers": sorted(peers)}


cdef inline void release_whole(
    Steps steps, Transport transport, int64_t m
) noexcept nogil:
    """Count a message as done that came as one segment of each sender."""
    cdef const message_row *message = &steps.messages[m]
    cdef int64_t c
    for c in range(message.first_channel, message.end_channel):
        steps.segments[c].data = NULL
    transport.release(
        &steps.channels[message.first_channel],
        message.end_channel - message.first_channel,
    )
    steps.progress[m].piece += 1
