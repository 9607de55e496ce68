# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packets between hosts, over any wire: short segments, a few in flight.

Each packet begins with the call record of its sender, so that a mismatch is found at the
receiver. Receives are posted ahead. An empty message, a mark, follows each DEPTH packets
as a synchronous send, which completes only once its receive is posted: no sender runs far
ahead of a slow receiver. Packets are plain sends: an engine may need the sender to poll
until a synchronous one completes (UCX the first to a peer), and a call returns before.
"""

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from collalgo._kernels.engine.transport.transport cimport LANE_LIMIT, call_record
from collalgo._kernels.engine.transport.wire cimport (
    LOST,
    UNDER_WAY,
    Wire,
    poll_engine,
)

#: The tests of a cancelled receive; it completes at once.
cdef enum:
    PATIENCE = 1000


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
        if self.addresses == NULL or self.queues == NULL or self.used == NULL:
            raise MemoryError
        for rank, address in enumerate(addresses):
            self.addresses[rank] = address

    def __dealloc__(self):
        self.give_up()
        free(self.addresses)
        free(self.queues)
        free(self.used)

    cdef void give_up(self) noexcept:
        """Cancel posted receives, and leave sends under way to the engine.

        Memory that the engine still uses is not freed.
        """
        cdef int64_t i, k, _turn
        cdef packet_queue *one
        cdef bint idle
        for i in range(self.queues_used):
            one = self.queues[self.used[i]]
            idle = self.lost == NONE_LOST
            for k in range(MARK + 1):
                if one.incoming[k].under_way:
                    self.wire.cancel(&one.incoming[k].request)
                for _turn in range(PATIENCE):
                    if self.done(self.used[i], &one.incoming[k]):
                        break
                idle = idle and not one.incoming[k].under_way
                if not self.done(self.used[i], &one.outgoing[k]):
                    self.wire.abandon(&one.outgoing[k].request)
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
        cdef int status
        if one.under_way:
            status = self.wire.test(
                self.addresses[channel % self.size], &one.request, &one.nbytes
            )
            if status == LOST:
                self.lost = channel % self.size
            one.under_way = status == UNDER_WAY
        return not one.under_way

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
            if not self.is_free(channel, one.outgoing, k):
                return False
        return True

    cdef bint is_free(
        self, int64_t channel, packet *packets, int64_t number
    ) noexcept nogil:
        """Whether a packet can be used again, and the mark if it follows the packet."""
        if number % DEPTH == DEPTH - 1 and not self.done(channel, &packets[MARK]):
            return False
        return self.done(channel, &packets[number % DEPTH])

    cdef void commit(
        self, int64_t channel, int64_t nbytes, int64_t carried, const call_record *call
    ) noexcept nogil:
        """Send the segment that was reserved last, or announce a long message."""
        cdef packet_queue *one = self.queues[channel]
        cdef packet *new = &one.outgoing[one.sent % DEPTH]
        cdef packet_header *header = <packet_header *>new.data
        header.call, header.carried = call[0], carried
        one.sent += 1
        self.send(channel, new, HEADER_BYTES + nbytes, False)
        if one.sent % DEPTH == 0 and self.lost == NONE_LOST:
            self.send(channel, &one.outgoing[MARK], 0, True)

    cdef void send(
        self, int64_t channel, packet *new, int64_t nbytes, bint matched
    ) noexcept nogil:
        """Begin to send a packet, or a mark."""
        new.under_way = self.wire.send(
            self.addresses[channel % self.size],
            self.first_tag + channel // self.size, new.data, nbytes, matched,
            &new.request,
        ) != LOST
        if not new.under_way:
            self.lost = channel % self.size

    cdef bint is_needed(self) noexcept nogil:
        """Whether the engine may still need polls to send committed packets."""
        cdef int64_t i
        cdef packet_queue *one
        cdef packet *last
        for i in range(self.queues_used):
            one = self.queues[self.used[i]]
            while one.settled < one.sent:
                last = &one.outgoing[one.settled % DEPTH]
                if not self.done(self.used[i], last):
                    return True
                one.settled += 1
        return False

    cdef void drive(self) noexcept nogil:
        """Drive the progress of the engine while a call waits.

        A call may have returned although the engine still keeps a mark that waits for
        its receive, or the end of a packet.
        """
        cdef int64_t i, k
        cdef packet_queue *one
        for i in range(self.queues_used):
            one = self.queues[self.used[i]]
            for k in range(MARK + 1):
                if one.outgoing[k].under_way:
                    self.done(self.used[i], &one.outgoing[k])
                    return
        poll_engine()

    cdef void post(self, int64_t channel) noexcept nogil:
        """Post receives for the next packets, and for the marks among them."""
        cdef packet_queue *one = self.queues[channel]
        while one.posted < one.consumed + DEPTH and self.lost == NONE_LOST:
            if not self.is_free(channel, one.incoming, one.posted):
                return
            self.receive_into(
                channel, &one.incoming[one.posted % DEPTH], HEADER_BYTES + SEGMENT_BYTES
            )
            one.posted += 1
            if one.posted % DEPTH == 0 and self.lost == NONE_LOST:
                self.receive_into(channel, &one.incoming[MARK], 0)

    cdef void receive_into(
        self, int64_t channel, packet *free_one, int64_t nbytes
    ) noexcept nogil:
        """Post the receive of a packet, or of a mark."""
        free_one.under_way = self.wire.receive(
            self.addresses[channel % self.size],
            self.first_tag + channel // self.size, free_one.data, nbytes,
            &free_one.request,
        ) != LOST
        if not free_one.under_way:
            self.lost = channel % self.size

    cdef const packet *first(self, int64_t channel) noexcept nogil:
        """The next packet that has arrived; or NULL."""
        cdef packet_queue *one = self.open_queue(channel)
        cdef packet *first
        if one == NULL:
            return NULL
        self.post(channel)
        if one.consumed == one.posted:  # a mark has not arrived before later packets
            return NULL
        first = &one.incoming[one.consumed % DEPTH]
        if self.lost != NONE_LOST or not self.done(channel, first) or self.lost != NONE_LOST:
            return NULL
        if first.nbytes < HEADER_BYTES:
            self.lost = channel % self.size
            return NULL
        return first

    cdef const packet_header *later(self, int64_t channel, int64_t after) noexcept nogil:
        """The header of a later packet than the first, if it has arrived; or NULL.

        One that is lost is found by :meth:`first` if it is needed.
        """
        cdef packet_queue *one = self.queues[channel]
        cdef packet *found = &one.incoming[(one.consumed + after) % DEPTH]
        cdef int64_t lost = self.lost
        if one.consumed + after >= one.posted or not self.done(channel, found):
            return NULL
        if self.lost != lost:
            self.lost, found.nbytes = lost, 0
        if found.nbytes < HEADER_BYTES:
            return NULL
        return <const packet_header *>found.data

    cdef void release(self, int64_t channel) noexcept nogil:
        """Release the first packet, which has been consumed."""
        self.queues[channel].consumed += 1
        self.post(channel)
