/* The survivors of a world: one rank aborts all calls, and the remaining ranks agree on the lost
 * ranks.
 *
 * They agree in rounds. A rank enters a round and waits until every other rank has entered it or
 * is lost. Then it writes its list of lost ranks and sets the decision word of the world. The
 * first rank to set the word decides: its list holds for all. A rank that dies after it has
 * entered counts as a survivor, and as lost in the next round. A rank reads the decision of a
 * round before it enters the next, so the lists can be overwritten. */
#ifndef COLLALGO_SURVIVORS_H
#define COLLALGO_SURVIVORS_H

#include "failures.h"

#define POLL_NANOSECONDS 2000000 /* between two checks for deaths, which no bell announces */

/* Abort the calls of all ranks from a number on; the culprit is a rank of the world. */
static inline void endpoint_revoke(endpoint *e, int64_t culprit, int64_t sequence) {
    static const call_record nothing;
    uint32_t none = 0;
    __atomic_compare_exchange_n(&world(e)->revoked, &none, (uint32_t)culprit + 1, 0,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    report(e, FAILURE_REVOKED, culprit, sequence, &nothing);
    ring_all(e);
}

/* The rank of the world that has revoked it; -1 if none has. */
static inline int64_t endpoint_revoker(const endpoint *e) {
    return (int64_t)LOAD(&world(e)->revoked) - 1;
}

/* Enter a round. */
static inline void endpoint_enter_round(endpoint *e, uint64_t round) {
    STORE(&e->me->round, round);
    ring_all(e);
}

static inline int has_entered_round(const endpoint *e, int64_t rank, uint64_t round) {
    return LOAD(&header(e, rank)->round) >= round;
}

/* Find the lost ranks: 0 if a rank has neither entered the round nor left. A rank that has
 * entered may leave once others have decided, so its entry is checked last. */
static inline int find_lost(endpoint *e, uint64_t round, uint64_t *lost) {
    poll(e->processes, e->size, 0);
    for (int64_t r = 0; r < e->size; r++) {
        int left = r != e->rank && has_left(e, r);
        if (has_entered_round(e, r, round)) continue;
        if (!left) return 0;
        lost[r / 64] |= UINT64_C(1) << r % 64;
    }
    return 1;
}

/* The rank that decided a round; -1 if the round cannot be decided yet. */
static inline int64_t decide(endpoint *e, uint64_t round) {
    uint64_t lost[HOST_RANKS / 64] = {0}, before = LOAD(&world(e)->decision);
    if (before >> 32 == round) return (int64_t)(uint32_t)before;
    if (!find_lost(e, round, lost)) return -1;
    memcpy(e->me->lost, lost, sizeof lost);
    if (!__atomic_compare_exchange_n(&world(e)->decision, &before,
                                     round << 32 | (uint64_t)e->rank, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return (int64_t)(uint32_t)before;
    ring_all(e);
    return e->rank;
}

/* Wait for the decision of a round until a time: the rank that decided it, or -1. */
static inline int64_t endpoint_await_decision(endpoint *e, uint64_t round, int64_t until) {
    struct timespec limit = {0, POLL_NANOSECONDS};
    for (;;) {
        uint32_t bell = LOAD(&e->me->bell);
        int64_t found = decide(e, round);
        if (found >= 0 || nanoseconds() >= until) return found;
        syscall(SYS_futex, &e->me->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
    }
}

#endif
