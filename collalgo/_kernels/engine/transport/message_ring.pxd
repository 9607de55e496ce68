"""The C functions of the rings of messages between two ranks, of ``message_ring.h``."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from collalgo._kernels.engine.transport.endpoint cimport endpoint
from collalgo._kernels.engine.transport.segment cimport rank_header


cdef extern from "message_ring.h" nogil:
    enum: CLAIMS
    enum: THROUGH_CHANNEL
    enum: CLAIM_LATER
    ctypedef struct message_head:
        uint8_t kind, on_device
        int16_t claim
        uint32_t dtype
        int64_t tag, number, count, nbytes, place
    ctypedef struct message_slot:
        int32_t nbytes
        message_head head
    ctypedef struct message_ring:
        int64_t taken
    ctypedef struct message_bell:
        pass
    ctypedef struct message_link:
        message_ring *out
        message_ring *in_ "in"
        rank_header *peer
        uint64_t sent, open_claims
        bint waits_for_room
    message_bell *bell_of(const endpoint *e, int64_t rank)
    void link_open(message_link *l, const endpoint *e, int64_t peer)
    bint link_is_attached(const message_link *l)
    bint link_put(
        message_link *l, const message_head *head, const char *data, int64_t nbytes
    )
    void link_refresh(message_link *l)
    int link_open_claim(message_link *l, int64_t number, bint is_awaited)
    bint link_is_read(message_link *l, int claim)
    bint link_withdraw(message_link *l, int claim, int64_t number)
    const message_slot *link_peek(const message_link *l)
    const char *link_elements(const message_link *l, const message_slot *s)
    void link_release(message_link *l)
    bint link_claim(message_link *l, int claim, int64_t number)
    void link_unclaim(message_link *l, int claim, int64_t number)
    int link_fetch(
        const message_link *l, char *target, int64_t place, int64_t nbytes
    )
    void link_finish(message_link *l, int claim, int64_t number)
    bint link_is_ready(const message_link *l)
    bint links_wait(
        message_bell *bell, message_link **links, int64_t count, int64_t spins,
        int64_t until
    )
    bint links_spin(message_link **links, int64_t count, int64_t turns)
    void wake_waiters(message_bell *bell)
