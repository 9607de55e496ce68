from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.packets cimport Packets
from collalgo._kernels.engine.transport.transport cimport (
    LANE_LIMIT,
    call_record,
    segment_state,
)


cdef enum:
    IN_FLIGHT = 4             # messages carried on a channel in each direction
    STAGED_BYTES = 1 << 24     # of a channel, after which messages are accepted one by one
    UNMATCHED_BYTES = 1 << 25  # that a sender may run ahead of its receiver
    # The tags of a world after those of the lanes.
    DEVICES_TAG = LANE_LIMIT
    CARRIED_TAG = LANE_LIMIT + 1  # and those of the other lanes


cdef struct carried_send:
    int64_t request, nbytes


cdef struct carried_receive:
    int64_t request, nbytes
    bint under_way
    char *target
    char *staging  # taken for this message, or NULL


cdef struct carriage:  # of a channel
    carried_send sends[IN_FLIGHT]
    int64_t begun, ended
    int64_t ahead      # the bytes begun after those that have been sent
    int64_t unmatched  # the bytes begun since a send that waits for its receive
    carried_receive receives[IN_FLIGHT]
    int64_t accepted, released
    int64_t room       # the bytes after the last accepted ones that may arrive likewise
    bint abandoned     # whether the engine may still write what it received


cdef class Network(Packets):
    cdef carriage **carriages
    cdef readonly bint in_use

    cdef carriage *open_carriage(self, int64_t channel) noexcept nogil
    cdef int64_t carry(
        self, int64_t channel, const char *data, int64_t nbytes, int64_t most,
        const call_record *call
    ) noexcept nogil
    cdef bint begin_carrying(
        self, int64_t channel, const char *data, int64_t nbytes, const call_record *call
    ) noexcept nogil
    cdef bint sent(self, int64_t channel, carriage *one) noexcept nogil
    cdef bint peek(
        self, int64_t channel, segment_state *segment, const call_record **call
    ) noexcept nogil
    cdef bint find_carried(self, int64_t channel, segment_state *segment) noexcept nogil
    cdef void accept(
        self, int64_t channel, char *target, int64_t nbytes, int64_t room
    ) noexcept nogil
    cdef void accept_next(self, int64_t channel, carriage *one) noexcept nogil
    cdef void receive(
        self, int64_t channel, carriage *one, char *target, int64_t nbytes
    ) noexcept nogil
    cdef bint arrived(self, int64_t channel, carriage *one) noexcept nogil
    cdef int test_receive(
        self, int64_t channel, carriage *one, carried_receive *which, int64_t *nbytes
    ) noexcept nogil
    cdef void end_staging(
        self, carriage *one, carried_receive *which
    ) noexcept nogil
    cdef void forget(self) noexcept nogil
    cdef void forget_receive(
        self, int64_t channel, carriage *one, carried_receive *which
    ) noexcept nogil
