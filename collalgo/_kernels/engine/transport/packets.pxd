from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.transport cimport call_record
from collalgo._kernels.engine.transport.wire cimport Wire


cdef enum:
    SEGMENT_BYTES = 32768  # the payload of a packet, which engines send without an answer
    HEADER_BYTES = 128     # before it: a packet_header, padded to cache lines
    DEPTH = 16             # packets in flight on a channel in each direction
    MARK = DEPTH           # the index of the mark, after those of the packets
    NONE_LOST = -1


cdef struct packet_header:
    call_record call  # of the sender
    int64_t carried   # the bytes of the long message that this packet announces, or 0


cdef struct packet:
    char *data
    int64_t request, nbytes
    bint under_way


cdef struct packet_queue:
    packet outgoing[MARK + 1]
    packet incoming[MARK + 1]
    int64_t sent, settled, posted, consumed


cdef class Packets:
    cdef Wire wire
    cdef int64_t size, first_tag
    cdef int64_t *addresses
    cdef packet_queue **queues
    cdef int64_t *used
    cdef int64_t queues_used
    cdef readonly int64_t lost

    cdef packet_queue *open_queue(self, int64_t channel) noexcept nogil
    cdef char *reserve(self, int64_t channel, int64_t left, int64_t *room) noexcept nogil
    cdef bint has_room(self, int64_t channel, int64_t packets) noexcept nogil
    cdef bint is_free(
        self, int64_t channel, packet *packets, int64_t number
    ) noexcept nogil
    cdef void commit(
        self, int64_t channel, int64_t nbytes, int64_t carried, const call_record *call
    ) noexcept nogil
    cdef void send(
        self, int64_t channel, packet *new, int64_t nbytes, bint matched
    ) noexcept nogil
    cdef const packet *first(self, int64_t channel) noexcept nogil
    cdef const packet_header *later(self, int64_t channel, int64_t after) noexcept nogil
    cdef void release(self, int64_t channel) noexcept nogil
    cdef bint is_needed(self) noexcept nogil
    cdef void drive(self) noexcept nogil
    cdef bint done(self, int64_t channel, packet *one) noexcept nogil
    cdef void post(self, int64_t channel) noexcept nogil
    cdef void receive_into(
        self, int64_t channel, packet *free_one, int64_t nbytes
    ) noexcept nogil
    cdef void give_up(self) noexcept
