/* A rank's calls, and what makes them fail: the first failure is the world's, for every rank
 * to report. */
#ifndef COLLALGO_FAILURES_H
#define COLLALGO_FAILURES_H

#include <poll.h>
#include <stddef.h>

#include "endpoint.h"

static int64_t failure_kind(const endpoint *e) { return LOAD(&world(e)->failure.kind); }

/* Say what has broken the world; the culprit is a rank of it, on whatever host. */
static int report(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence,
                  const call_record *theirs) {
    world_failure *f = &world(e)->failure;
    uint32_t unclaimed = 0;
    if (!__atomic_compare_exchange_n(&f->claimed, &unclaimed, 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        struct timespec moment = {0, 1000000};
        for (int i = 0; i < 1000 && !failure_kind(e); i++) nanosleep(&moment, NULL);
        if (failure_kind(e)) return STOP;
        /* Who claimed it has died before it could say why. */
    }
    f->rank = e->names[e->rank], f->culprit = culprit, f->sequence = sequence;
    f->waited = e->timeout;
    f->mine = e->me->calls[sequence % CALLS];
    f->theirs = *theirs;
    f->missing_ranks = 0;
    for (int64_t r = 0; r < e->size; r++)
        if (kind == FAILURE_TIMEOUT && LOAD(&header(e, r)->entered) < (uint64_t)e->sequence)
            if (f->missing_ranks++ < MISSING)
                f->missing[f->missing_ranks - 1] = (int32_t)e->names[r];
    STORE(&f->kind, kind);
    ring_all(e);
    return STOP;
}

/* The same of a rank of this host. */
static int fail(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence) {
    return report(e, kind, e->names[culprit], sequence,
                  &header(e, culprit)->calls[sequence % CALLS]);
}

static int has_left(const endpoint *e, int64_t rank) {
    uint32_t status = LOAD(&header(e, rank)->status);
    return status == RANK_CLOSED || status == RANK_FAILED ||
           (e->processes[rank].revents & (POLLIN | POLLHUP));
}

/* The same, asked of the system too. */
static int is_gone(endpoint *e, int64_t rank) {
    poll(e->processes, e->size, 0);
    return has_left(e, rank);
}

/* Is there still hope for this call? Asked now and then by a rank that waits. */
static int check(endpoint *e) {
    if (failure_kind(e)) return STOP;
    double time = 1e-9 * nanoseconds();
    if (!e->waiting_since) e->waiting_since = e->checked = time;
    if (time - e->checked < CHECK_SECONDS) return GO_ON;
    e->checked = time;
    int64_t sequence = e->sequence;
    poll(e->processes, e->size, 0);
    if (LOAD(&e->me->status) != RANK_ACTIVE) /* closed by another thread */
        return fail(e, FAILURE_PEER, e->rank, sequence);
    for (int64_t r = 0; r < e->size; r++) {
        rank_header *peer = header(e, r);
        call_record *call = &peer->calls[sequence % CALLS];
        if (r == e->rank) continue;
        if (LOAD(&call->sequence) == sequence && call->fingerprint != e->fingerprint &&
            LOAD(&call->sequence) == sequence)
            return fail(e, FAILURE_MISMATCH, r, sequence);
        if (has_left(e, r) && LOAD(&peer->completed) < (uint64_t)sequence)
            return fail(e, FAILURE_PEER, r, sequence);
    }
    if (e->timeout >= 0 && time - e->waiting_since > e->timeout)
        return fail(e, FAILURE_TIMEOUT, e->rank, sequence);
    return SIGNALS;
}

/* ---- calls */

/* The sequence number is part of the fingerprint: calls in another order differ. What
 * is called after a failure is not recorded, so that all ranks tell the same story. */
static int endpoint_enter(endpoint *e, const call_record *call, double timeout) {
    if (failure_kind(e)) return STOP;
    call_record *record = &e->me->calls[++e->sequence % CALLS];
    STORE(&record->sequence, 0); /* a reader must not take old and new for one call */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    e->fingerprint =
        call->fingerprint ^ (int64_t)((uint64_t)e->sequence * UINT64_C(0x2545f4914f6cdd1d));
    int64_t sequence = e->sequence;
    memcpy(&record->fingerprint, &call->fingerprint,
           sizeof *call - offsetof(call_record, fingerprint));
    record->fingerprint = e->fingerprint;
    STORE(&record->sequence, sequence);
    e->timeout = timeout;
    e->waiting_since = 0;
    e->hope_ends = 0;
    STORE(&e->me->entered, (uint64_t)e->sequence);
    return GO_ON;
}

/* What is to be expected of a rank, between calls; if something has failed, a call tells. */
static int endpoint_outlook(endpoint *e, int64_t rank) {
    rank_header *peer = header(e, rank);
    uint32_t status = LOAD(&peer->status);
    if (failure_kind(e) || LOAD(&peer->entered) > (uint64_t)e->sequence) return CALLED;
    if (status == RANK_CLOSED) return LEFT;
    return is_gone(e, rank) ? CALLED : QUIET;
}

static void endpoint_exit(endpoint *e) {
    STORE(&e->me->completed, (uint64_t)e->sequence);
}

#endif
