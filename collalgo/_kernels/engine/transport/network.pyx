# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Channels between hosts: short segments in packets, long messages carried by the engine.

A copy on either side, and the work of the engine for each packet, take longer than the
bytes on a fast link. So a packet only announces a long message, which the engine reads
in the memory of its sender and writes to that of its receiver.
"""

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from collalgo._kernels.engine.transport.packets cimport (
    HEADER_BYTES,
    NONE_LOST,
    Packets,
    packet,
    packet_header,
    packet_queue,
)
from collalgo._kernels.engine.transport.staging cimport return_staging, staging_for
from collalgo._kernels.engine.transport.transport cimport (
    ANNOUNCED,
    CACHE_LINE,
    DELIVERED,
    LANE_LIMIT,
    NEAR,
    NOT_CARRIED,
    call_record,
    segment_state,
)
from collalgo._kernels.engine.transport.wire cimport LOST, UNDER_WAY, Wire

#: The tags of a world: two for each lane, and one for the messages of devices.
TAGS = 2 * LANE_LIMIT + 1

cdef enum:
    PATIENCE = 1000  # the tests of messages that the engine is to finish with


cdef inline int64_t part_of(int64_t nbytes, int64_t most) noexcept nogil:
    """The first of the equal parts in which bytes are carried."""
    cdef int64_t parts = (nbytes + most - 1) // most
    cdef int64_t each = (nbytes + parts - 1) // parts
    return min(nbytes, (each + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE)


@cython.no_gc_clear  # __dealloc__ cancels receives by the wire
cdef class Network(Packets):
    """One rank's channels to the ranks on other hosts; see :class:`Packets`.

    Attributes
    ----------
    in_use : bool
        Whether the engine may still read or write memory of a failed call.
    """

    def __cinit__(self, Wire wire, addresses, int64_t first_tag):
        self.carriages = <carriage **>calloc(LANE_LIMIT * self.size, sizeof(void *))
        if self.carriages == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.give_up()
        free(self.carriages)
        self.carriages = NULL

    cdef void give_up(self) noexcept:
        """Cancel posted receives, and leave sends under way to the engine."""
        cdef int64_t i
        if self.carriages != NULL:
            self.forget()
            for i in range(LANE_LIMIT * self.size):
                if self.carriages[i] != NULL and not self.carriages[i].abandoned:
                    free(self.carriages[i])
                self.carriages[i] = NULL
        Packets.give_up(self)

    cdef carriage *open_carriage(self, int64_t channel) noexcept nogil:
        """The long messages of a channel, allocated at its first one."""
        if self.carriages[channel] == NULL:
            self.carriages[channel] = <carriage *>calloc(1, sizeof(carriage))
            if self.carriages[channel] == NULL:
                self.lost = channel % self.size
        return self.carriages[channel]

    cdef int64_t carry(
        self, int64_t channel, const char *data, int64_t nbytes, int64_t most,
        const call_record *call
    ) noexcept nogil:
        """Carry the next bytes of a message; see :meth:`Transport.carry`."""
        cdef packet_queue *queue = self.open_queue(channel)
        cdef carriage *one = self.open_carriage(channel)
        cdef int64_t left
        most = min(max(most, self.wire.longest_staged), self.wire.longest)
        if queue == NULL or one == NULL:
            return 0
        while one.begun - one.ended < IN_FLIGHT:
            left = nbytes - one.ahead
            if left < self.wire.shortest or not self.has_room(channel, 1):
                break
            if not self.begin_carrying(
                channel, data + one.ahead, part_of(left, most), call
            ):
                return 0
        if one.begun == one.ended:
            return 0 if nbytes >= self.wire.shortest else NOT_CARRIED
        if not self.sent(channel, one):
            return 0
        return one.sends[(one.ended - 1) % IN_FLIGHT].nbytes

    cdef bint begin_carrying(
        self, int64_t channel, const char *data, int64_t nbytes, const call_record *call
    ) noexcept nogil:
        """Announce and begin a long message; False if the peer is lost."""
        cdef carriage *one = self.carriages[channel]
        cdef carried_send *new = &one.sends[one.begun % IN_FLIGHT]
        self.commit(channel, 0, nbytes, call)
        one.unmatched += nbytes
        cdef bint matched = one.unmatched >= UNMATCHED_BYTES
        if matched:
            one.unmatched = 0
        if self.lost != NONE_LOST or self.wire.send(
            self.addresses[channel % self.size],
            self.first_tag + CARRIED_TAG + channel // self.size, data, nbytes, matched,
            &new.request,
        ) == LOST:
            self.lost = channel % self.size
            return False
        new.nbytes = nbytes
        one.begun += 1
        one.ahead += nbytes
        return True

    cdef bint sent(self, int64_t channel, carriage *one) noexcept nogil:
        """Whether the oldest long message of a channel has been read, which ends it."""
        cdef carried_send *oldest = &one.sends[one.ended % IN_FLIGHT]
        cdef int64_t _unused
        cdef int status = self.wire.test(
            self.addresses[channel % self.size], &oldest.request, &_unused
        )
        if status == UNDER_WAY:
            return False
        if status == LOST:
            self.lost, self.in_use = channel % self.size, True
        one.ended += 1
        one.ahead -= oldest.nbytes
        return status != LOST

    cdef bint peek(
        self, int64_t channel, segment_state *segment, const call_record **call
    ) noexcept nogil:
        """Look for the next segment of a channel, and for the call of its sender.

        Returns whether a packet has arrived. A message that it announces has no data
        before it is accepted and has arrived, too.
        """
        cdef const packet *head = self.first(channel)
        segment.location = NEAR
        if head == NULL:
            return False
        cdef const packet_header *header = <const packet_header *>head.data
        call[0] = &header.call
        if header.carried:
            segment.left = header.carried
            return self.find_carried(channel, segment)
        segment.data = head.data + HEADER_BYTES
        segment.left = head.nbytes - HEADER_BYTES
        return True

    cdef bint find_carried(self, int64_t channel, segment_state *segment) noexcept nogil:
        """Find the state of a long message that is announced; False without memory."""
        cdef carriage *one = self.open_carriage(channel)
        if one == NULL:
            return False
        cdef carried_receive *oldest = &one.receives[one.released % IN_FLIGHT]
        if one.accepted == one.released:
            segment.location = ANNOUNCED
            return True
        if self.arrived(channel, one):
            segment.data = oldest.target
            segment.location = NEAR if oldest.target == oldest.staging else DELIVERED
        self.accept_next(channel, one)
        return True

    cdef void accept(
        self, int64_t channel, char *target, int64_t nbytes, int64_t room
    ) noexcept nogil:
        """Receive the message that was announced; see :meth:`Transport.accept`."""
        cdef carriage *one = self.carriages[channel]
        one.room = room
        self.receive(channel, one, target, nbytes)

    cdef void accept_next(self, int64_t channel, carriage *one) noexcept nogil:
        """Receive the next message of a call early, so that its sender need not wait."""
        cdef int64_t pending = one.accepted - one.released, most = IN_FLIGHT
        cdef carried_receive *last = &one.receives[(one.accepted - 1) % IN_FLIGHT]
        cdef const packet_header *first = self.later(channel, 0)
        cdef const packet_header *header
        cdef char *target = last.target + last.nbytes
        if last.target == last.staging:
            target, most = NULL, min(IN_FLIGHT, STAGED_BYTES // last.nbytes)
        header = self.later(channel, pending) if pending < most else NULL
        if not (first and header) or header.call.fingerprint != first.call.fingerprint:
            return
        if header.carried and header.carried <= one.room:
            one.room -= header.carried
            self.receive(channel, one, target, header.carried)

    cdef void receive(
        self, int64_t channel, carriage *one, char *target, int64_t nbytes
    ) noexcept nogil:
        """Begin to receive a message: into ``target``, or else into staging."""
        cdef carried_receive *new = &one.receives[one.accepted % IN_FLIGHT]
        new.staging = staging_for(nbytes) if target == NULL else NULL
        new.target = new.staging if target == NULL else target
        new.nbytes = nbytes
        if new.target == NULL or self.wire.receive(
            self.addresses[channel % self.size],
            self.first_tag + CARRIED_TAG + channel // self.size, new.target, nbytes,
            &new.request,
        ) == LOST:
            self.lost = channel % self.size
            self.end_staging(one, new)
            return
        new.under_way = True
        one.accepted += 1

    cdef bint arrived(self, int64_t channel, carriage *one) noexcept nogil:
        """Whether the first accepted message of a channel has arrived."""
        cdef carried_receive *oldest = &one.receives[one.released % IN_FLIGHT]
        cdef int64_t nbytes = oldest.nbytes
        cdef int status
        if oldest.under_way:
            status = self.test_receive(channel, one, oldest, &nbytes)
            if status == LOST or (status != UNDER_WAY and nbytes != oldest.nbytes):
                self.lost = channel % self.size
        return not oldest.under_way and self.lost == NONE_LOST

    cdef int test_receive(
        self, int64_t channel, carriage *one, carried_receive *which, int64_t *nbytes
    ) noexcept nogil:
        """The status of a receive under way; the engine may still write a lost one."""
        cdef int status = self.wire.test(
            self.addresses[channel % self.size], &which.request, nbytes
        )
        which.under_way = status == UNDER_WAY
        if status == LOST:
            one.abandoned = self.in_use = True
        return status

    cdef void release(self, int64_t channel) noexcept nogil:
        """Release the segment last peeked at, which has been consumed."""
        cdef carriage *one = self.carriages[channel]
        if one != NULL and one.accepted > one.released:
            self.end_staging(one, &one.receives[one.released % IN_FLIGHT])
            one.released += 1
        Packets.release(self, channel)

    cdef void end_staging(
        self, carriage *one, carried_receive *which
    ) noexcept nogil:
        """Return the memory of a received message, unless the engine may still write it."""
        if which.staging != NULL and not one.abandoned:
            return_staging(which.staging, which.nbytes)
        which.staging = NULL

    cdef void forget(self) noexcept nogil:
        """End the long messages of a failed call, or leave them to the engine."""
        cdef int64_t i, _turn
        cdef carriage *one
        for i in range(LANE_LIMIT * self.size):
            one = self.carriages[i]
            if one == NULL:
                continue
            while one.released < one.accepted:
                self.forget_receive(i, one, &one.receives[one.released % IN_FLIGHT])
                one.released += 1
            for _turn in range(PATIENCE):
                while one.ended < one.begun and self.sent(i, one):
                    pass
            while one.ended < one.begun:
                self.wire.abandon(&one.sends[one.ended % IN_FLIGHT].request)
                one.ended += 1
                self.in_use = True
            one.ahead = 0

    cdef void forget_receive(
        self, int64_t channel, carriage *one, carried_receive *which
    ) noexcept nogil:
        """Cancel a receive, which ends at once unless the message is arriving."""
        cdef int64_t nbytes, turn = 0
        if which.under_way:
            self.wire.cancel(&which.request)
            while which.under_way and turn < PATIENCE:
                turn += 1
                self.test_receive(channel, one, which, &nbytes)
            if which.under_way:
                one.abandoned = self.in_use = True
        self.end_staging(one, which)
