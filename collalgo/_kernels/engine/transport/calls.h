/* The begin and the end of a call, and the state of a rank between calls. */
#ifndef COLLALGO_CALLS_H
#define COLLALGO_CALLS_H

#include <stddef.h>

#include "failures.h"

/* Begin a call. The fingerprint covers all calls so far: a rank that receives a message has made
 * the same calls as its sender, so no rank whose calls differ from those of another returns from
 * a call in which it depends on all ranks. Calls after a failure are not recorded,
 * so that all ranks report the same calls. */
static inline int endpoint_enter(endpoint *e, const call_record *call, double timeout) {
    if (has_failed(e, e->sequence + 1)) return STOP;
    call_record *record = &e->me->calls[++e->sequence % CALLS];
    STORE(&record->sequence, 0); /* a reader must not see parts of two calls */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    uint64_t all = (uint64_t)(e->fingerprint ^ call->fingerprint);
    e->fingerprint =
        (int64_t)(all * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)e->sequence);
    int64_t sequence = e->sequence;
    memcpy(&record->fingerprint, &call->fingerprint,
           sizeof *call - offsetof(call_record, fingerprint));
    record->fingerprint = e->fingerprint;
    e->number += call->number == WHOLE_CALL;
    record->number = e->number + (call->number == PART_OF_NEXT);
    STORE(&record->sequence, sequence);
    e->timeout = timeout;
    e->waiting_since = 0;
    e->spin_ends = 0;
    STORE(&e->me->entered, (uint64_t)e->sequence);
    return GO_ON;
}

/* The state of a rank between calls; CALLED too if the next call reports a failure. */
static inline int endpoint_peer_state(endpoint *e, int64_t rank) {
    rank_header *peer = header(e, rank);
    uint32_t status = LOAD(&peer->status);
    if (LOAD(&peer->entered) > (uint64_t)e->sequence) return CALLED;
    if (has_failed(e, e->sequence + 1)) return CALLED;
    if (status == RANK_CLOSED) return LEFT;
    if (has_left_by_now(e, rank)) return CALLED;
    e->missing |= e->channels[rank].bit;
    return QUIET;
}

/* Begin a wait between calls, which has no timeout of its own. */
static inline void endpoint_begin_wait(endpoint *e) {
    e->timeout = -1;
    e->waiting_since = 0;
    e->spin_ends = 0;
}

static inline void endpoint_exit(endpoint *e) {
    STORE(&e->me->completed, (uint64_t)e->sequence);
}

#endif
