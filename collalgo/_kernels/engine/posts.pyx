# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The messages of a rank: how far they are, and how those go on that it sends.

A message goes the shortest way that there is: its sender writes it where it belongs, or it
is read where it is, or it is staged in between.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from collalgo._kernels.engine.reduction.reduce cimport Reduction
from collalgo._kernels.engine.rows cimport (
    BYTES,
    FIRST_CHANNEL,
    INPUT,
    Rows,
    address,
    message_row,
    piece_row,
    step_row,
)
from collalgo._kernels.engine.transport.transport cimport (
    GO_ON,
    NOT_WANTED,
    SHARED,
    SHARED_IF_NEAR,
    SHARED_UNLESS_FAR,
    STAGED,
    WRITTEN,
    Transport,
    message_part,
    segment_state,
)

cnp.import_array()

cdef enum:
    LEND_BYTES = 1024  # below it a copy is faster than the wait for who reads
    PUT_BYTES = 16384  # below it a copy is faster than to look where it may be put
    IN_PIECES = -1  # instead of the length of a message that is one piece
    ALWAYS = 1  # others may read or write a message where it is
    APART = 2   # or only if the result has memory of its own
    RETURNED = 3  # always, and in place its reader writes over what it has read


cdef class Posts(Rows):
    """The messages of one rank, and how far those of one step are.

    Parameters
    ----------
    plan, reduction, divisor, streamed, abreast
        As of :class:`Rows`.
    fetched : bool
        Whether it pays to read what is only copied from the memory of its process.
    shares : bool
        Whether it pays to read and write what the ranks have mapped where it is: if it
        leaves the caches of a core before it is used again.
    lingers : bool
        Whether it is still in some cache by then, which may be far away.
    """
    def __init__(
        self, plan, Reduction reduction, int64_t divisor, bint streamed, bint abreast,
        bint fetched, bint shares, bint lingers
    ):
        Rows.__init__(self, plan, reduction, divisor, streamed, abreast)
        self.fetched = fetched
        cdef int where = SHARED
        if lingers:  # what is staged beyond the caches is slow anyway, and tells nothing
            where = SHARED_UNLESS_FAR if streamed else SHARED_IF_NEAR
        self.fetch = where if fetched else STAGED
        self.mapped = where if shares else STAGED
        lengths = np.array([
            plan.pieces[first:end, BYTES].sum()
            for first, end in plan.messages[:, :2].tolist()
        ], np.int64)
        pieces = plan.messages[:, 1] - plan.messages[:, 0]
        one_piece = (pieces == 1) & (plan.waves == 1)
        offers = {  # the last of each channel, which has room for one
            plan.channels[plan.messages[m, FIRST_CHANNEL]]: m
            for first_receive, end in plan.steps[:, 1:].tolist()
            for m in range(first_receive, end)
            if plan.lendable[m] and lengths[m] >= PUT_BYTES and pieces[m] == 1
        }
        self.offers_end = len(offers)
        self.states = (
            np.zeros((len(plan.messages), 3), np.int64),
            np.zeros((len(plan.channels), 3), np.int64),
            np.where(one_piece, lengths, IN_PIECES),
            np.stack([plan.messages[:, 0], np.zeros_like(lengths), lengths], axis=1),
            np.array(list(offers.values()), np.int64),
            np.where((pieces == 1) & (pieces[plan.relays] == 1), plan.relays, NONE),
            np.zeros(len(plan.messages), np.int64),
        )
        self.progress = <message_state *>address(self.states[0])
        self.segments = <segment_state *>address(self.states[1])
        self.whole = <const int64_t *>address(self.states[2])
        self.begins = <const message_state *>address(self.states[3])
        self.offers = <const int64_t *>address(self.states[4])
        self.relays = <const int64_t *>address(self.states[5])
        self.relayed = <int64_t *>address(self.states[6])

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
    cdef bint may_share(self, int64_t m) noexcept nogil:
        """Whether the other ranks may read or write a message where it is."""
        cdef int64_t mark = self.lendable[m]
        return mark == ALWAYS or mark == RETURNED or (
            mark == APART and self.arrays.apart
        )

    @cython.final
    cdef int share(self, int64_t m) noexcept nogil:
        """Whether it pays that the other ranks read or write a message where it is.

        A line that two caches have is dear to write, and one that another has written is
        dear to read: to share what will be used again while it is in them takes longer
        than to copy it. What its reader writes in any case has to be fetched anyway.
        """
        if self.lendable[m] == RETURNED and not self.arrays.apart:
            return SHARED
        return self.mapped if self.may_share(m) else STAGED

    @cython.final
    cdef bint is_last(self, int64_t m) noexcept nogil:
        """Whether a rank has done all once it has sent a message, and those beside it."""
        cdef const step_row *last = &self.steps[self.steps_end - 1]
        if self.wave < self.waves - 1 or m < last.first_post:
            return False
        return last.first_receive == last.end

    @cython.final
    cdef void offer(self, Transport transport) noexcept nogil:
        """Let others write messages of this call where they belong, if that pays.

        What is offered stays so for all of the call: a sender may be about to write it.
        """
        cdef const message_row *message
        cdef const piece_row *piece
        cdef int64_t i
        for i in range(self.offers_end):
            if self.share(self.offers[i]) != STAGED:
                message = &self.messages[self.offers[i]]
                piece = &self.pieces[message.first_piece]
                transport.offer(
                    self.channels[message.first_channel],
                    self.numbers[message.first_channel],
                    self.arrays.base[piece.target] + piece.target_offset, piece.nbytes,
                )

    @cython.final
    cdef message_part part_of(
        self, int64_t post, const piece_row *piece, int64_t done, int64_t nbytes
    ) noexcept nogil:
        """The bytes from ``done`` on of a post that is one piece."""
        cdef const message_row *message = &self.messages[post]
        cdef message_part part
        part.channels = &self.channels[message.first_channel]
        part.numbers = &self.numbers[message.first_channel]
        part.readers = message.end_channel - message.first_channel
        part.data = self.source_of(piece, done)
        part.nbytes, part.done, part.whole = nbytes, done, piece.nbytes
        part.is_result = piece.source != INPUT
        part.past_caches = self.is_streamed()
        part.is_written = self.relayed[post] == nbytes
        return part

    @cython.final
    cdef int64_t aim(
        self, Transport transport, int64_t post, int64_t done, int64_t nbytes
    ) noexcept nogil:
        """Find where some bytes of a post belong, to write them there now, if that can be.

        Returns for how many readers; their targets are behind the one of this rank.
        """
        if post == NONE:
            return 0
        cdef const piece_row *piece = &self.pieces[self.messages[post].first_piece]
        cdef message_part part = self.part_of(post, piece, done, nbytes)
        if done == self.bytes_until(piece, self.wave):
            self.relayed[post] = 0
        if not transport.aim(&part, &self.targets[1]):
            return 0
        self.relayed[post] += nbytes
        return part.readers

    @cython.final
    cdef int put(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Write the next piece of a post where it belongs, as :meth:`Transport.put`."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef message_part part
        cdef int found
        if message.end_piece - message.first_piece > 1:
            return NOT_WANTED
        part = self.part_of(
            m, piece, state.done, self.bytes_until(piece, self.wave + 1) - state.done
        )
        found = transport.put(post, &part)
        if found == WRITTEN:
            self.advance(m, part.nbytes)
        return found

    @cython.final
    cdef bint lend(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Let the next piece of a post be read where it is, if that can be and pays."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef int64_t nbytes = self.bytes_until(piece, self.wave + 1) - state.done
        if nbytes < LEND_BYTES or not transport.lend(
            post, &self.channels[message.first_channel],
            message.end_channel - message.first_channel,
            self.source_of(piece, state.done), nbytes, self.share(m), self.fetch,
            self.is_last(m),
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
        cdef int found
        if state.left >= LEND_BYTES:
            if state.left >= PUT_BYTES:
                found = self.put(transport, m, post)
                if found != NOT_WANTED:
                    return GO_ON if found == WRITTEN else NOTHING
            if self.may_share(m) and self.lend(transport, m, post):
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
    cdef void advance(self, int64_t m, int64_t nbytes) noexcept nogil:
        cdef message_state *state = &self.progress[m]
        state.done += nbytes
        state.left -= nbytes
        if state.done == self.bytes_until(&self.pieces[state.piece], self.wave + 1):
            self.skip_to(m, state.piece + 1)
