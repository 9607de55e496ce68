/* The survivors of a world: one of its ranks breaks off all calls, and those that are left agree
 * on who is gone.
 *
 * They agree in rounds. A rank comes to a round and waits until each other one has come, too, or
 * is gone. Then it writes down who is gone, and sets the decision word of the world, unless
 * another rank has done so first: what that one has written down counts for all. A rank that
 * dies after it has come counts as a survivor, and is missed in the next round. No rank comes to
 * a round before it has read the decision of the last, so that the notes can be written again. */
#ifndef COLLALGO_SURVIVORS_H
#define COLLALGO_SURVIVORS_H

#include "failures.h"

#define LOOK_NANOSECONDS 2000000 /* between two looks for deaths, which no bell announces */

/* Break off the calls of all ranks from a number on; the culprit is a rank of the world. */
static void endpoint_revoke(endpoint *e, int64_t culprit, int64_t sequence) {
    static const call_record nothing;
    uint32_t none = 0;
    __atomic_compare_exchange_n(&world(e)->revoked, &none, (uint32_t)culprit + 1, 0,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    report(e, FAILURE_REVOKED, culprit, sequence, &nothing);
    ring_all(e);
}

/* The rank of the world that has revoked it; -1 if none has. */
static int64_t endpoint_revoker(const endpoint *e) {
    return (int64_t)LOAD(&world(e)->revoked) - 1;
}

/* Come to a round. */
static void endpoint_come(endpoint *e, uint64_t round) {
    STORE(&e->me->round, round);
    ring_all(e);
}

static int has_come(const endpoint *e, int64_t rank, uint64_t round) {
    return LOAD(&header(e, rank)->round) >= round;
}

/* Find who is gone: 0 if a rank has neither come nor gone. A rank that has come may leave once
 * others have decided, so whether it has come is asked last. */
static int find_gone(endpoint *e, uint64_t round, uint64_t *gone) {
    poll(e->processes, e->size, 0);
    for (int64_t r = 0; r < e->size; r++) {
        int left = r != e->rank && has_left(e, r);
        if (has_come(e, r, round)) continue;
        if (!left) return 0;
        gone[r / 64] |= UINT64_C(1) << r % 64;
    }
    return 1;
}

/* The rank whose notes of a round count; -1 if nobody can decide yet. */
static int64_t decide(endpoint *e, uint64_t round) {
    uint64_t gone[HOST_RANKS / 64] = {0}, before = LOAD(&world(e)->decision);
    if (before >> 32 == round) return (int64_t)(uint32_t)before;
    if (!find_gone(e, round, gone)) return -1;
    memcpy(e->me->gone, gone, sizeof gone);
    if (!__atomic_compare_exchange_n(&world(e)->decision, &before,
                                     round << 32 | (uint64_t)e->rank, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return (int64_t)(uint32_t)before;
    ring_all(e);
    return e->rank;
}

/* Wait for the decision of a round until a time: the rank whose notes count, or -1. */
static int64_t endpoint_await_decision(endpoint *e, uint64_t round, int64_t until) {
    struct timespec nap = {0, LOOK_NANOSECONDS};
    for (;;) {
        uint32_t bell = LOAD(&e->me->bell);
        int64_t found = decide(e, round);
        if (found >= 0 || nanoseconds() >= until) return found;
        syscall(SYS_futex, &e->me->bell, FUTEX_WAIT, bell, &nap, NULL, 0);
    }
}

#endif
