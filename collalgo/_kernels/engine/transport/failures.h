/* A rank's calls, and what makes them fail: the failure of the earliest call is the world's,
 * for every rank to report once it comes to that call. */
#ifndef COLLALGO_FAILURES_H
#define COLLALGO_FAILURES_H

#include <poll.h>
#include <stddef.h>

#include "endpoint.h"

/* The failure of the earliest call of which one is known, or NULL. */
static const world_failure *known_failure(const endpoint *e) {
    uint32_t known = LOAD(&world(e)->known);
    return known ? world(e)->failures + known - 1 : NULL;
}

/* Whether a call has failed, or one before it. An earlier one can still be completed: the
 * ranks that are past it have sent all of it, and keep until it is read what they lend. */
static int has_failed(const endpoint *e, int64_t sequence) {
    const world_failure *f = known_failure(e);
    return f && f->sequence <= sequence;
}

static void describe_failure(endpoint *e, world_failure *f, uint32_t kind,
                             int64_t culprit, int64_t sequence,
                             const call_record *theirs) {
    f->kind = kind;
    f->rank = e->names[e->rank], f->culprit = culprit, f->sequence = sequence;
    f->waited = e->timeout;
    f->mine = e->me->calls[sequence % CALLS];
    f->theirs = *theirs;
    f->missing_ranks = 0;
    for (int64_t r = 0; r < e->size; r++)
        if (kind == FAILURE_TIMEOUT && LOAD(&header(e, r)->entered) < (uint64_t)e->sequence)
            if (f->missing_ranks++ < MISSING)
                f->missing[f->missing_ranks - 1] = (int32_t)e->names[r];
}

/* Be the only one to describe a failure, unless who does has died of it. */
static void claim_failures(world_header *w) {
    struct timespec moment = {0, 1000000};
    for (int i = 0; i < 1000 && __atomic_exchange_n(&w->claimed, 1, __ATOMIC_ACQUIRE); i++)
        nanosleep(&moment, NULL);
}

/* Say what has broken the world, if no earlier call is known to have; the culprit is a rank
 * of it, on whatever host. */
static int report(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence,
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

/* The same of a rank of this host. */
static int fail(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence) {
    return report(e, kind, e->names[culprit], sequence,
                  &header(e, culprit)->calls[sequence % CALLS]);
}

/* Whether a rank and I are known to have made another call of some number. */
static int differ(const endpoint *e, int64_t rank, int64_t sequence) {
    const call_record *mine = e->me->calls + sequence % CALLS;
    const call_record *theirs = header(e, rank)->calls + sequence % CALLS;
    int known = mine->sequence == sequence && LOAD(&theirs->sequence) == sequence;
    return known && mine->fingerprint != theirs->fingerprint &&
           LOAD(&theirs->sequence) == sequence;
}

/* A rank has made another call than I, or had before. */
static int fail_mismatch(endpoint *e, int64_t rank, int64_t sequence) {
    while (sequence > 1 && differ(e, rank, sequence - 1)) sequence--;
    return fail(e, FAILURE_MISMATCH, rank, sequence);
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
    if (has_failed(e, e->sequence)) return STOP;
    double time = 1e-9 * nanoseconds();
    if (!e->waiting_since) e->waiting_since = e->checked = time;
    if (time - e->checked < CHECK_SECONDS) return GO_ON;
    e->checked = time;
    int64_t sequence = e->sequence;
    poll(e->processes, e->size, 0);
    if (LOAD(&e->me->status) != RANK_ACTIVE) /* closed by another thread */
        return fail(e, FAILURE_PEER, e->rank, sequence);
    for (int64_t r = 0; r < e->size; r++) {
        if (r == e->rank) continue;
        if (differ(e, r, sequence)) return fail_mismatch(e, r, sequence);
        if (has_left(e, r) && LOAD(&header(e, r)->completed) < (uint64_t)sequence)
            return fail(e, FAILURE_PEER, r, sequence);
    }
    if (e->timeout >= 0 && time - e->waiting_since > e->timeout)
        return fail(e, FAILURE_TIMEOUT, e->rank, sequence);
    return SIGNALS;
}

/* ---- calls */

/* The fingerprint is of all calls so far: whoever hears from a rank that made another call
 * before, of which no message met one of mine, finds it out now. What is called after a
 * failure is not recorded, so that all ranks tell the same story. */
static int endpoint_enter(endpoint *e, const call_record *call, double timeout) {
    if (has_failed(e, e->sequence + 1)) return STOP;
    call_record *record = &e->me->calls[++e->sequence % CALLS];
    STORE(&record->sequence, 0); /* a reader must not take old and new for one call */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    uint64_t before = (uint64_t)(e->fingerprint & e->remembers);
    e->fingerprint = (int64_t)((before ^ (uint64_t)call->fingerprint) *
                                   UINT64_C(0x2545f4914f6cdd1d) +
                               (uint64_t)e->sequence);
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
    if (LOAD(&peer->entered) > (uint64_t)e->sequence) return CALLED;
    if (has_failed(e, e->sequence + 1)) return CALLED;
    if (status == RANK_CLOSED) return LEFT;
    return is_gone(e, rank) ? CALLED : QUIET;
}

static void endpoint_exit(endpoint *e) {
    STORE(&e->me->completed, (uint64_t)e->sequence);
}

#endif
