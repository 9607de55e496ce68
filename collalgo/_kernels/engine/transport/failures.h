/* The failures of calls. The failure of the earliest call is that of the world: every rank reports
 * it once it reaches that call. */
#ifndef COLLALGO_FAILURES_H
#define COLLALGO_FAILURES_H

#include <poll.h>

#include "endpoint.h"

/* The known failure of the earliest call, or NULL. */
static inline const world_failure *known_failure(const endpoint *e) {
    uint32_t known = LOAD(&world(e)->known);
    return known ? world(e)->failures + known - 1 : NULL;
}

/* Whether this call or an earlier one has failed. Calls before the failed one can still complete:
 * the ranks that have completed them have sent everything, and keep zero-copy messages until
 * they are read. */
static inline int has_failed(const endpoint *e, int64_t sequence) {
    const world_failure *f = known_failure(e);
    return f && f->sequence <= sequence;
}

/* Fill in a failure: its call, the calls of both ranks, and the missing ranks. */
static inline void describe_failure(endpoint *e, world_failure *f, uint32_t kind,
                                    int64_t culprit, int64_t sequence,
                                    const call_record *theirs) {
    f->kind = kind;
    f->rank = e->world_ranks[e->rank], f->culprit = culprit, f->sequence = sequence;
    f->waited = e->timeout;
    f->mine = e->me->calls[sequence % CALLS];
    f->theirs = *theirs;
    f->missing_ranks = 0;
    for (int64_t r = 0; r < e->size; r++)
        if (kind == FAILURE_TIMEOUT && LOAD(&header(e, r)->entered) < (uint64_t)e->sequence)
            if (f->missing_ranks++ < MISSING)
                f->missing[f->missing_ranks - 1] = (int32_t)e->world_ranks[r];
}

/* Lock the list of failures; break the lock if its owner has died. */
static inline void claim_failures(world_header *w) {
    struct timespec moment = {0, 1000000};
    for (int i = 0; i < 1000 && __atomic_exchange_n(&w->claimed, 1, __ATOMIC_ACQUIRE); i++)
        nanosleep(&moment, NULL);
}

/* Report a failure of the world, unless an earlier call is known to have failed. The culprit
 * is a rank of the world, on any host. */
static inline int report(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence,
                         const call_record *theirs) {
    world_header *w = world(e);
    if (has_failed(e, sequence)) return STOP;
    claim_failures(w);
    if (!has_failed(e, sequence)) {
        uint32_t place = w->known < FAILURES ? w->known : FAILURES - 1;
        describe_failure(e, w->failures + place, kind, culprit, sequence, theirs);
        STORE(&w->known, place + 1);
    }
    STORE(&w->claimed, 0);
    ring_all(e);
    return STOP;
}

/* Report a failure whose culprit is a rank of this host. */
static inline int fail(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence) {
    return report(e, kind, e->world_ranks[culprit], sequence,
                  &header(e, culprit)->calls[sequence % CALLS]);
}

/* Whether the calls of this number of a rank and of this one are known to differ. */
static inline int differ(const endpoint *e, int64_t rank, int64_t sequence) {
    const call_record *mine = e->me->calls + sequence % CALLS;
    const call_record *theirs = header(e, rank)->calls + sequence % CALLS;
    int known = mine->sequence == sequence && LOAD(&theirs->sequence) == sequence;
    return known && mine->fingerprint != theirs->fingerprint &&
           LOAD(&theirs->sequence) == sequence;
}

/* Report a mismatch with a rank, at the first call that differs. */
static inline int fail_mismatch(endpoint *e, int64_t rank, int64_t sequence) {
    while (sequence > 1 && differ(e, rank, sequence - 1)) sequence--;
    return fail(e, FAILURE_MISMATCH, rank, sequence);
}

/* The last call that a rank and this one have both begun. */
static inline int64_t last_in_common(const endpoint *e, int64_t rank) {
    int64_t entered = (int64_t)LOAD(&header(e, rank)->entered);
    return entered < e->sequence ? entered : e->sequence;
}

/* A rank of this host whose calls are known to differ from those of this rank, or which has
 * closed after another number of calls; -1 without one. */
static inline int64_t differing_rank(const endpoint *e) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* of two that leave, one sees the other's calls */
    for (int64_t r = 0; r < e->size; r++) {
        int closed = LOAD(&header(e, r)->status) == RANK_CLOSED;
        int64_t common = last_in_common(e, r);
        if (common && differ(e, r, common)) return r;
        if (closed && LOAD(&header(e, r)->entered) != (uint64_t)e->sequence &&
            !known_failure(e))
            return r;
    }
    return -1;
}

static inline int has_left(const endpoint *e, int64_t rank) {
    uint32_t status = LOAD(&header(e, rank)->status);
    return status == RANK_CLOSED || status == RANK_FAILED ||
           (e->processes[rank].revents & (POLLIN | POLLHUP));
}

/* The same, after a poll of the processes. */
static inline int has_left_by_now(endpoint *e, int64_t rank) {
    poll(e->processes, e->size, 0);
    return has_left(e, rank);
}

/* Report a rank that has left, or an earlier call in which its arguments differed. */
static inline int fail_for_left(endpoint *e, int64_t rank) {
    int64_t common = last_in_common(e, rank);
    if (common && differ(e, rank, common)) return fail_mismatch(e, rank, common);
    return fail(e, FAILURE_PEER, rank, e->sequence);
}

/* Fail if another rank has made a different call, or has left before this call. */
static inline int check_others(endpoint *e, int64_t sequence) {
    for (int64_t r = 0; r < e->size; r++) {
        if (r == e->rank) continue;
        if (sequence && differ(e, r, sequence)) return fail_mismatch(e, r, sequence);
        if (has_left(e, r) && LOAD(&header(e, r)->completed) < (uint64_t)sequence)
            return fail_for_left(e, r);
    }
    return GO_ON;
}

/* Check a waiting call for failures: GO_ON, SIGNALS if signals are to be checked, or STOP. The
 * first check of a call is due at once if it was `quiet`. */
static inline int check(endpoint *e, int quiet) {
    if (has_failed(e, e->sequence)) return STOP;
    double time = 1e-9 * nanoseconds();
    if (!e->waiting_since) {
        e->waiting_since = e->signals = time;
        e->checked = quiet ? 0 : time;
    }
    if (time - e->checked < CHECK_SECONDS + CHECK_SECONDS_PER_RANK * e->size) return GO_ON;
    e->checked = time;
    int64_t sequence = e->sequence;
    poll(e->processes, e->size, 0);
    if (LOAD(&e->me->status) != RANK_ACTIVE) /* closed by another thread */
        return fail(e, FAILURE_PEER, e->rank, sequence);
    int found = check_others(e, sequence);
    if (found != GO_ON) return found;
    if (e->timeout >= 0 && time - e->waiting_since > e->timeout)
        return fail(e, FAILURE_TIMEOUT, e->rank, sequence);
    if (time - e->signals < SIGNAL_SECONDS) return GO_ON;
    e->signals = time;
    return SIGNALS;
}

#endif
