"""The C functions of the shared-memory transport, of ``shared_memory.h`` and others."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from posix.time cimport clockid_t

from collalgo._kernels.engine.transport.segment cimport (
    pollfd,
    rank_header,
    world_failure,
    world_header,
)
from collalgo._kernels.engine.transport.transport cimport (
    call_record,
    message_part,
    segment_state,
)


cdef extern from "transport.h" nogil:
    ctypedef struct wait_policy:
        int64_t spins, spin_ticks, yields
    ctypedef struct staging_state:
        pass
    ctypedef struct endpoint:  # other members are private to its C
        pollfd *processes
        int64_t sequence
        int64_t *world_ranks
        staging_state staging
        int64_t small_bytes, recycled_count
        wait_policy usual, background
        int64_t first_sleep
        int polls
        double timeout, waiting_since, checked

cdef extern from "waiting.h" nogil:
    void endpoint_yield_core(endpoint *e, clockid_t caller)
    int endpoint_pause(endpoint *e, int64_t *idle)
    void endpoint_resume(endpoint *e)
    bint endpoint_sleeps(const endpoint *e)
    bint endpoint_await_all(endpoint *e)

cdef extern from "survivors.h" nogil:
    void endpoint_revoke(endpoint *e, int64_t culprit, int64_t sequence)
    int64_t endpoint_revoker(const endpoint *e)
    void endpoint_enter_round(endpoint *e, uint64_t round)
    bint has_entered_round(const endpoint *e, int64_t rank, uint64_t round)
    int64_t endpoint_await_decision(endpoint *e, uint64_t round, int64_t until)

cdef extern from "staged_copy.h" nogil:
    void stage(staging_state *s, char *target, const char *data, int64_t nbytes)

cdef extern from "zero_copy.h" nogil:
    bint endpoint_send_direct(
        endpoint *e, int64_t post, const int64_t *channels, int64_t readers,
        const char *data, int64_t nbytes, int share, int fetch, bint last
    )
    bint endpoint_has_readers(endpoint *e)
    void endpoint_offer(
        endpoint *e, int64_t channel, int64_t number, const char *target, int64_t nbytes
    )
    int endpoint_put(endpoint *e, int64_t post, const message_part *part)
    bint endpoint_locate(endpoint *e, const message_part *part, char **targets)

cdef extern from "calls.h" nogil:
    int endpoint_enter(endpoint *e, const call_record *call, double timeout)
    void endpoint_exit(endpoint *e)
    int endpoint_peer_state(endpoint *e, int64_t rank)
    void endpoint_begin_wait(endpoint *e)

cdef extern from "shared_memory.h" nogil:
    const world_failure *known_failure(const endpoint *e)
    rank_header *header(const endpoint *e, int64_t rank)
    endpoint *endpoint_new(
        char *base, const char *heap, int64_t heap_bytes, int64_t rank, int64_t size,
        int64_t posts, int64_t round
    )
    bint endpoint_needs_new_pages(const endpoint *e)
    void endpoint_announce(endpoint *e)
    void endpoint_free(endpoint *e)
    void endpoint_share_cores(endpoint *e)
    void endpoint_fence(endpoint *e)
    void endpoint_leave(endpoint *e, uint32_t status, const char *exit_reason)
    int report(
        endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence,
        const call_record *theirs
    )
    void endpoint_begin_step(endpoint *e, int64_t posts, int brief)
    bint endpoint_post(
        endpoint *e, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes
    )
    char *endpoint_reserve(
        endpoint *e, int64_t post, const int64_t *channels, int64_t readers,
        int64_t left, int64_t *room
    )
    void endpoint_commit(
        endpoint *e, int64_t post, const int64_t *channels, int64_t readers,
        int64_t nbytes
    )
    bint endpoint_peek(
        endpoint *e, const int64_t *channels, int64_t senders, segment_state *segments
    )
    int endpoint_fetch(
        endpoint *e, int64_t channel, char *target, const char *data, int64_t nbytes
    )
    bint can_read_memory(int process)
    void endpoint_release(endpoint *e, const int64_t *channels, int64_t senders)
    int64_t differing_rank(const endpoint *e)
    bint has_left_by_now(endpoint *e, int64_t rank)
    bint endpoint_has_room(endpoint *e, int64_t rank, int64_t messages)
