# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The posts of a rank: the messages that it sends.

A message takes the shortest possible path: its sender writes it to its destination, or its
readers read the sender's memory, or it is staged in between.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int64_t

from collalgo._kernels.engine.borders cimport INPUT
from collalgo._kernels.engine.buffer_length cimport NONE
from collalgo._kernels.engine.filling cimport piece_row
from collalgo._kernels.engine.messages cimport (
    NOTHING,
    PUT_BYTES,
    Messages,
    message_state,
)
from collalgo._kernels.engine.reduction.reduce cimport Reduction
from collalgo._kernels.engine.template_tables cimport message_row
from collalgo._kernels.engine.transport.transport cimport (
    GO_ON,
    NOT_CARRIED,
    NOT_OFFERED,
    OFFER_PENDING,
    SHARED,
    SHARED_IF_NEAR,
    SHARED_UNLESS_FAR,
    STAGED,
    WRITTEN,
    Transport,
    message_part,
)

cdef enum:
    DIRECT_BYTES = 1024  # below it a copy is faster than the wait for a reader
    # The most bytes of a message of a reduction between hosts: it begins with the first
    # part, and each part costs the work of the engine for a message.
    PART_BYTES = 1 << 20
    # The same where it replaces what a post still reads: until then it is staged.
    REPLACING_BYTES = 1 << 21
    # The values of collalgo.engine.plan.zero_copy.DirectBuffers, without NO:
    ALWAYS = 1
    APART = 2
    RETURNED = 3


cdef class Posts(Messages):
    """The posts of one rank, and the offers of its receives to senders.

    Parameters
    ----------
    template, reduction, divisor, copying
        As of :class:`Rows`.
    """
    def __init__(self, template, Reduction reduction, int64_t divisor, copying):
        Messages.__init__(self, template, reduction, divisor, copying)
        self.fetched = copying.fetched
        self.carried = REPLACING_BYTES if len(template.hazards) else INT64_MAX
        if reduction is not None:
            self.carried = PART_BYTES
        cdef int policy = SHARED
        if copying.stays_cached:  # staging past the caches is slow, and measures nothing
            policy = SHARED_UNLESS_FAR if copying.streamed else SHARED_IF_NEAR
        self.fetch = policy if copying.fetched else STAGED
        self.mapped = policy if copying.shares else STAGED

    @cython.final
    cdef bint may_share(self, int64_t m) noexcept nogil:
        """Whether the plan allows other ranks to read or write the memory of a message."""
        cdef int64_t mark = self.tables.direct[m]
        return mark == ALWAYS or mark == RETURNED or (
            mark == APART and self.arrays.are_disjoint
        )

    @cython.final
    cdef int share(self, int64_t m) noexcept nogil:
        """The zero-copy policy for a message.

        A line that two caches hold is expensive to write, and one that another core has
        written is expensive to read. So zero copy of data that is used again while it is
        in the caches takes longer than a copy. Data that its reader overwrites anyway
        moves to the cache of the reader in any case.
        """
        if self.tables.direct[m] == RETURNED and not self.arrays.are_disjoint:
            return SHARED
        return self.mapped if self.may_share(m) else STAGED

    @cython.final
    cdef void offer(self, Transport transport) noexcept nogil:
        """Offer the destinations of messages of this call, where that is faster.

        An offer holds for the whole call, as a sender may be about to write there.
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
                    self.tables.numbers[message.first_channel],
                    self.arrays.base[piece.target] + piece.target_offset, piece.nbytes,
                )

    @cython.final
    cdef message_part part_of(
        self, int64_t post, const piece_row *piece, int64_t done, int64_t nbytes
    ) noexcept nogil:
        """The ``nbytes`` bytes from ``done`` on of a post of a single piece."""
        cdef const message_row *message = &self.messages[post]
        cdef message_part part
        part.channels = &self.channels[message.first_channel]
        part.numbers = &self.tables.numbers[message.first_channel]
        part.readers = message.end_channel - message.first_channel
        part.data = self.source_of(piece, done)
        part.nbytes, part.done, part.whole = nbytes, done, piece.nbytes
        part.is_result = piece.source != INPUT
        part.past_caches = self.is_streamed()
        part.is_written = self.forwarded[post] == nbytes
        return part

    @cython.final
    cdef int64_t locate(
        self, Transport transport, int64_t post, int64_t done, int64_t nbytes
    ) noexcept nogil:
        """Find the destinations of a part of a post, for a reduction into them.

        Returns the number of readers, 0 if the part is to be sent later; their targets
        follow that of this rank.
        """
        if post == NONE:
            return 0
        cdef const piece_row *piece = &self.pieces[self.messages[post].first_piece]
        cdef message_part part = self.part_of(post, piece, done, nbytes)
        if done == self.bytes_until(piece, self.slice):
            self.forwarded[post] = 0
        if not transport.locate(&part, &self.targets[1]):
            return 0
        self.forwarded[post] += nbytes
        return part.readers

    @cython.final
    cdef int put(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Write the next piece of a post to its destinations; see :meth:`Transport.put`."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef message_part part
        cdef int found
        if message.end_piece - message.first_piece > 1:
            return NOT_OFFERED
        part = self.part_of(
            m, piece, state.done, self.bytes_until(piece, self.slice + 1) - state.done
        )
        found = transport.put(post, &part)
        if found == WRITTEN:
            self.advance(m, part.nbytes)
        return found

    @cython.final
    cdef bint send_direct(
        self, Transport transport, int64_t m, int64_t post
    ) noexcept nogil:
        """Send the next piece of a post without a copy, if that is possible and faster."""
        cdef const message_row *message = &self.messages[m]
        cdef message_state *state = &self.progress[m]
        cdef const piece_row *piece = &self.pieces[state.piece]
        cdef int64_t nbytes = self.bytes_until(piece, self.slice + 1) - state.done
        if nbytes < DIRECT_BYTES or not transport.send_direct(
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
        cdef int found
        if self.progress[m].left >= DIRECT_BYTES:
            found = send_unstaged(self, transport, m, post)
            if found != NOT_OFFERED:
                return GO_ON if found == WRITTEN else NOTHING
        if 0 <= self.whole[m] <= transport.whole and post_whole(self, transport, m):
            return GO_ON
        return self.stage(transport, m, post)

    @cython.final
    cdef int stage(self, Transport transport, int64_t m, int64_t post) noexcept nogil:
        """Send the next segment of a post through the memory of the transport."""
        cdef const message_row *message = &self.messages[m]
        cdef const int64_t *channels = &self.channels[message.first_channel]
        cdef int64_t readers = message.end_channel - message.first_channel, room
        cdef char *slot = transport.reserve(
            post, channels, readers, self.progress[m].left, &room
        )
        if slot == NULL:
            return NOTHING
        fill_segment(self, transport, m, slot, room)
        transport.commit(post, channels, readers, room)
        return GO_ON


cdef inline int send_unstaged(
    Posts posts, Transport transport, int64_t m, int64_t post
) noexcept nogil:
    """Send the next piece of a long post without staging; see :meth:`Transport.put`."""
    cdef int found
    if transport.carries:
        found = carry(posts, transport, m)
        if found != NOT_OFFERED:
            return found
    if posts.progress[m].left >= PUT_BYTES:
        found = posts.put(transport, m, post)
        if found != NOT_OFFERED:
            return found
    if posts.may_share(m) and posts.send_direct(transport, m, post):
        return WRITTEN
    return NOT_OFFERED


cdef inline int carry(Posts posts, Transport transport, int64_t m) noexcept nogil:
    """Carry the next piece of a post to another host; see :meth:`Transport.carry`."""
    cdef message_state *state = &posts.progress[m]
    cdef const piece_row *piece = &posts.pieces[state.piece]
    cdef int64_t done = transport.carry(
        posts.channels[posts.messages[m].first_channel],
        posts.source_of(piece, state.done),
        posts.bytes_until(piece, posts.slice + 1) - state.done, posts.carried,
    )
    if done == NOT_CARRIED:
        return NOT_OFFERED
    if done == 0:
        return OFFER_PENDING
    posts.advance(m, done)
    return WRITTEN


cdef inline bint post_whole(Posts posts, Transport transport, int64_t m) noexcept nogil:
    """Send a short post at once, if that is possible now."""
    cdef const message_row *message = &posts.messages[m]
    cdef const piece_row *piece = &posts.pieces[posts.progress[m].piece]
    if not transport.post(
        &posts.channels[message.first_channel],
        message.end_channel - message.first_channel,
        posts.source_of(piece, 0), piece.nbytes,
    ):
        return False
    posts.progress[m].piece += 1
    return True


cdef inline void fill_segment(
    Posts posts, Transport transport, int64_t m, char *slot, int64_t room
) noexcept nogil:
    """Write the next ``room`` bytes of a post to a segment."""
    cdef const int64_t *channels = &posts.channels[posts.messages[m].first_channel]
    cdef message_state *state = &posts.progress[m]
    cdef const piece_row *piece
    cdef int64_t filled = 0, nbytes
    while True:
        piece = &posts.pieces[state.piece]
        nbytes = min(
            room - filled, posts.bytes_until(piece, posts.slice + 1) - state.done
        )
        transport.fill(
            channels, slot + filled, posts.source_of(piece, state.done), nbytes
        )
        filled += nbytes
        posts.advance(m, nbytes)
        if filled == room:
            break
