# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packets between hosts, over any wire: short segments, a few in flight.

Each packet begins with the call record of its sender, so that a mismatch is found at the
receiver. Receives are posted ahead. No sender runs far ahead of a slow receiver: a packet
tells how many of the other direction its sender has consumed. Where none tells it for
DEPTH packets, an empty message, a mark, follows the next one as a synchronous send, which
completes once its receive is posted: when the packet before it has been consumed. Packets
are plain sends: an engine may need the sender to poll until a synchronous one completes
(UCX the first to a peer), and a call returns before.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free

from collalgo._kernels.engine.transport.transport cimport LANE_LIMIT, call_record
from collalgo._kernels.engine.transport.wire cimport (
    LOST,
    UNDER_WAY,
    Wire,
    poll_engine,
    wire_request,
)

#: The tests of a cancelled receive; it completes at once.
cdef enum:
    PATIENCE = 1000


assert sizeof(packet_header) <= HEADER_BYTES


cdef inline bint needs_mark(const packet_queue *one, int64_t packets) noexcept nogil:
    """Whether further packets of a channel need a mark, after that before it."""
    return one.sent + packets - max(one.taken, one.mark) >= DEPTH


cdef inline void note_taken(packet_queue *one, const packet_header *header) noexcept nogil:
    """Note what the peer had consumed when it sent a packet."""
    cdef int32_t more = <int32_t>(header.consumed - <uint32_t>one.taken)
    one.taken += max(more, 0)


@cython.no_gc_clear  # __dealloc__ cancels packets in flight by the wire
cdef class Packets:
    """One rank's packets to and from the ranks on other hosts.

    Parameters
    ----------
    wire : Wire
        The engine.
    addresses : sequence of int
        The address of each rank of the world in the engine.
    first_tag : int
        The tag of lane 0; the world owns :data:`~.network.TAGS` from this one on.
    """

    def __cinit__(self, Wire wire, addresses, int64_t first_tag):
        self.wire = wire
        self.size = len(addresses)
        self.first_tag = first_tag
        self.lost = NONE_LOST
        self.addresses = <int64_t *>calloc(self.size, sizeof(int64_t))
        self.queues = <packet_queue **>calloc(LANE_LIMIT * self.size, sizeof(void *))
        self.used = <int64_t *>calloc(LANE_LIMIT * self.size, sizeof(int64_t))
        self.awaited = <wire_request **>calloc(
            AWAITED * LANE_LIMIT * self.size, sizeof(void *)
        )
        if not (self.addresses and self.queues and self.used and self.awaited):
            raise MemoryError
        for rank, address in enumerate(addresses):
            self.addresses[rank] = address

    def __dealloc__(self):
        self.give_up()
        free(self.addresses)
        free(self.queues)
        free(self.used)
        free(self.awaited)

    cdef void give_up(self) noexcept:
        """Cancel posted receives, and leave sends under way to the engine.

        Memory that the engine still uses is not freed.
        """
        cdef int64_t i, k
        cdef packet_queue *one
        cdef bint idle
        self.forget_awaited()
        for i in range(self.queues_used):
            one = self.queues[self.used[i]]
            idle = self.lost == NONE_LOST
            for k in range(MARK + 1):
                if one.incoming[k].request.status == UNDER_WAY:
                    self.wire.cancel(&one.incoming[k].request.word)
                idle &= self.ends_soon(&one.incoming[k].request)
                if not self.done(self.used[i], &one.outgoing[k]):
                    self.wire.abandon(&one.outgoing[k].request.word)
                    idle = False
            if idle:
                free(one)
        self.queues_used = 0

    cdef packet_queue *open_queue(self, int64_t channel) noexcept nogil:
        """The packets of a channel, allocated at its first use."""
        cdef int64_t pitch = HEADER_BYTES + SEGMENT_BYTES, k
        cdef packet_queue *one = self.queues[channel]
        cdef char *data
        if one == NULL:
            one = <packet_queue *>calloc(1, sizeof(packet_queue) + 64 + 2 * DEPTH * pitch)
            if one == NULL:
                self.lost = channel % self.size
                return NULL
            data = <char *>one + sizeof(packet_queue)
            data += -<int64_t>data & 63
            for k in range(DEPTH):
                one.outgoing[k].data = data + 2 * k * pitch
                one.incoming[k].data = data + (2 * k + 1) * pitch
            one.outgoing[MARK].data = one.incoming[MARK].data = data  # of no bytes
            self.queues[channel] = one
            self.used[self.queues_used] = channel
            self.queues_used += 1
        return one

    cdef bint done(self, int64_t channel, packet *one) noexcept nogil:
        """Whether a packet is not in flight."""
        if one.request.status == UNDER_WAY:
            self.test(&one.request)
            if one.request.status == LOST:
                self.lost = channel % self.size
        return one.request.status != UNDER_WAY

    cdef bint test(self, wire_request *request) noexcept nogil:
        """Test a request alone: whether it has ended."""
        if request.status == UNDER_WAY:
            request.status = self.wire.test(request.peer, &request.word, &request.nbytes)
        return request.status != UNDER_WAY

    cdef bint ends_soon(self, wire_request *request) noexcept nogil:
        """Whether a request of a failed call ends within some tests."""
        cdef int64_t _turn
        for _turn in range(PATIENCE):
            if self.test(request):
                return True
        return False

    cdef bint has_ended(self, wire_request *request) noexcept nogil:
        """Whether a request has ended; :meth:`drive` tests it if it is under way."""
        if request.status == UNDER_WAY and not request.awaited:
            request.awaited = True
            self.awaited[self.awaited_count] = request
            self.awaited_count += 1
        return request.status != UNDER_WAY

    cdef char *reserve(self, int64_t channel, int64_t left, int64_t *room) noexcept nogil:
        """The memory for the next segment, or NULL without room now."""
        cdef packet_queue *one
        if not self.has_room(channel, 1):
            return NULL
        one = self.queues[channel]
        room[0] = min(left, SEGMENT_BYTES)
        return one.outgoing[one.sent % DEPTH].data + HEADER_BYTES

    cdef bint has_room(self, int64_t channel, int64_t packets) noexcept nogil:
        """Whether a number of packets can be sent without a wait."""
        cdef packet_queue *one = self.open_queue(channel)
        cdef int64_t k
        if one == NULL:
            return False
        for k in range(one.sent, one.sent + packets):
            if not self.done(channel, &one.outgoing[k % DEPTH]):
                return False
        return not needs_mark(one, packets) or self.done(channel, &one.outgoing[MARK])

    cdef void commit(
        self, int64_t channel, int64_t nbytes, int64_t carried, const call_record *call
    ) noexcept nogil:
        """Send the segment that was reserved last, or announce a long message."""
        cdef packet_queue *one = self.queues[channel]
        cdef packet *new = &one.outgoing[one.sent % DEPTH]
        cdef packet_header *header = <packet_header *>new.data
        one.sent += 1
        header.call, header.carried = call[0], carried
        header.consumed = <uint32_t>one.consumed
        header.is_marked = needs_mark(one, 0)
        self.send(channel, new, PACKETS_TAG, HEADER_BYTES + nbytes)
        if header.is_marked and self.lost == NONE_LOST:
            one.mark = one.sent
            self.send(channel, &one.outgoing[MARK], MARKS_TAG, 0)

    cdef void send(
        self, int64_t channel, packet *new, int64_t tag, int64_t nbytes
    ) noexcept nogil:
        """Begin to send a packet, or a mark."""
        cdef int64_t peer = self.addresses[channel % self.size]
        new.request.peer, new.request.status = peer, self.wire.send(
            peer, self.first_tag + tag + channel // self.size, new.data, nbytes,
            tag == MARKS_TAG, &new.request.word,
        )
        if new.request.status == LOST:
            self.lost = channel % self.size

    cdef bint is_needed(self) noexcept nogil:
        """Whether the engine may still need polls to send committed packets."""
        cdef int64_t i
        cdef packet_queue *one
        for i in range(self.queues_used):
            one = self.queues[self.used[i]]
            while one.settled < one.sent:
                if not self.done(self.used[i], &one.outgoing[one.settled % DEPTH]):
                    return True
                one.settled += 1
        return False

    cdef bint drive(self) noexcept nogil:
        """Drive the engine once while a call waits: whether a request has ended.

        Those that the call waits for are tested together. The engine also sends then
        what it still keeps, of this and of other calls.
        """
        cdef int64_t count = self.awaited_count
        self.forget_awaited()
        if count == 0:
            poll_engine()
        return count > 0 and self.wire.test_any(self.awaited, count)

    cdef void forget_awaited(self) noexcept nogil:
        """Forget what requests are awaited; a poll of their messages notes them again."""
        cdef int64_t i
        for i in range(self.awaited_count):
            self.awaited[i].awaited = False
        self.awaited_count = 0

    cdef void post(self, int64_t channel) noexcept nogil:
        """Post receives for the next packets."""
        cdef packet_queue *one = self.queues[channel]
        while one.posted < one.consumed + DEPTH and self.lost == NONE_LOST:
            self.receive_into(
                channel, &one.incoming[one.posted % DEPTH], PACKETS_TAG,
                HEADER_BYTES + SEGMENT_BYTES,
            )
            one.posted += 1

    cdef void post_mark(self, int64_t channel, packet_queue *one) noexcept nogil:
        """Post the receive of a mark once that of the mark before it has ended."""
        if one.awaits_mark and self.done(channel, &one.incoming[MARK]):
            one.awaits_mark = False
            self.receive_into(channel, &one.incoming[MARK], MARKS_TAG, 0)

    cdef void receive_into(
        self, int64_t channel, packet *free_one, int64_t tag, int64_t nbytes
    ) noexcept nogil:
        """Post the receive of a packet, or of a mark."""
        cdef int64_t peer = self.addresses[channel % self.size]
        free_one.request.peer, free_one.request.status = peer, self.wire.receive(
            peer, self.first_tag + tag + channel // self.size, free_one.data, nbytes,
            &free_one.request.word,
        )
        if free_one.request.status == LOST:
            self.lost = channel % self.size

    cdef const packet *first(self, int64_t channel) noexcept nogil:
        """The next packet that has arrived; or NULL."""
        cdef packet_queue *one = self.open_queue(channel)
        cdef packet *first
        if one == NULL:
            return NULL
        self.post(channel)
        self.post_mark(channel, one)
        first = &one.incoming[one.consumed % DEPTH]
        if self.lost != NONE_LOST or not self.has_ended(&first.request):
            return NULL
        if first.request.status == LOST or first.request.nbytes < HEADER_BYTES:
            self.lost = channel % self.size
            return NULL
        note_taken(one, <const packet_header *>first.data)
        return first

    cdef const packet_header *later(self, int64_t channel, int64_t after) noexcept nogil:
        """The header of a later packet than the first, if it has arrived; or NULL.

        One that is lost is found by :meth:`first` if it is needed.
        """
        cdef packet_queue *one = self.queues[channel]
        cdef packet *found = &one.incoming[(one.consumed + after) % DEPTH]
        if one.consumed + after >= one.posted or not self.has_ended(&found.request):
            return NULL
        if found.request.status == LOST or found.request.nbytes < HEADER_BYTES:
            return NULL
        return <const packet_header *>found.data

    cdef void release(self, int64_t channel) noexcept nogil:
        """Release the first packet, which has been consumed."""
        cdef packet_queue *one = self.queues[channel]
        cdef const char *first = one.incoming[one.consumed % DEPTH].data
        one.awaits_mark |= (<const packet_header *>first).is_marked
        one.consumed += 1
        self.post_mark(channel, one)
        self.post(channel)
