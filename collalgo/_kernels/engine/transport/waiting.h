/* How a rank waits: it spins, then yields, then sleeps until somebody rings. */
#ifndef COLLALGO_WAITING_H
#define COLLALGO_WAITING_H

#include "cores.h"
#include "failures.h"

#define SLOW_YIELD 1200000     /* ticks, half a millisecond */
#define LONG_YIELD 4000000     /* ticks, one to two milliseconds */
#define BUSY_AT_LEAST 8000000  /* ticks, a few milliseconds */
#define BUSY_AT_MOST 300000000 /* ticks, about a tenth of a second */
#define BUSY_AGAIN 4           /* how much longer, and in how many times as long */
#define LOOK_AGAIN 100000      /* nanoseconds between two looks at a caller */
#define RESTS 4                /* who computes in less than one of so many rests */

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int all_fence(endpoint *e) {
    for (int64_t r = 0; r < e->size && !e->all_fence; r++)
        if (!LOAD(&header(e, r)->fences)) return 0;
    return e->all_fence = 1;
}

/* Say that I am going to sleep. Who sends then sees it, or I see what was sent: unless the
 * others fence, this makes each of their processors do it now. */
static void arm(endpoint *e) {
    __atomic_store_n(&e->me->asleep, 1, __ATOMIC_SEQ_CST);
    e->bell_seen = LOAD(&e->me->bell);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!all_fence(e)) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

/* Let the thread of a caller, by the clock of its processor time, have the core that I need
 * in its place; NOBODY ends that. */
static void endpoint_give_way(endpoint *e, clockid_t caller) {
    e->caller = caller;
    e->looked = 0;
    e->rests = 0;
}

/* Whether whom I give way to has hardly computed since I looked last: it waits for me, or
 * for a core that yields let it have. */
static int caller_rests(endpoint *e) {
    struct timespec t;
    int64_t now = nanoseconds(), used = 0;
    if (now < e->looked + LOOK_AGAIN) return e->rests;
    if (!clock_gettime(e->caller, &t)) used = t.tv_sec * 1000000000 + t.tv_nsec;
    e->rests = e->looked && RESTS * (used - e->used) < now - e->looked;
    e->looked = now, e->used = used;
    return e->rests;
}

static int caller_computes(endpoint *e) {
    return e->caller != NOBODY && !caller_rests(e);
}

/* Whether all that I wait for run, on other cores. Who yields then comes back when the
 * ranks that share its core have had their turns, which takes longer than to wait. */
static int is_hopeful(endpoint *e, int64_t hopes) {
    uint64_t missing = e->missing;
    e->missing = 0;
    if (!missing || !hopes) return 0;
    int64_t now = ticks();
    if (!e->hope_ends) e->hope_ends = now + hopes;
    if (now >= e->hope_ends) return 0;
    for (; missing; missing &= missing - 1) {
        const rank_header *peer = header(e, __builtin_ctzll(missing));
        int32_t core = __atomic_load_n(&peer->core, __ATOMIC_RELAXED);
        if (core == 0 || core == e->me->core) return 0;
    }
    return 1;
}

/* Expect more long yields after one. A single one may have been anybody's turn, so it is
 * soon forgotten; who computes makes the next one long, too. */
static void expect_busy(busy_spell *spell, int64_t begun, int64_t ended) {
    int64_t longer = BUSY_AGAIN * spell->length;
    if (begun - spell->until >= longer) longer = BUSY_AT_LEAST;
    spell->length = longer < BUSY_AT_MOST ? longer : BUSY_AT_MOST;
    spell->until = ended + spell->length;
}

/* Whether a yield has been so long that somebody must have computed: who begins to takes a
 * while once, who goes on takes it again. */
static int is_long(endpoint *e, int64_t begun, int64_t ended) {
    if (ended - begun <= SLOW_YIELD) return 0;
    int again = begun - e->slow_yield < BUSY_AT_LEAST;
    e->slow_yield = ended;
    return again || ended - begun > LONG_YIELD;
}

/* Whether a rank has not come to this call yet. */
static int some_are_late(endpoint *e) {
    for (int64_t r = 0; r < e->size; r++)
        if (LOAD(&header(e, r)->entered) < (uint64_t)e->sequence) return 1;
    return 0;
}

/* Whether a yield is likely to be long. What ranks compute for is soon over once all are in
 * the call: then they work for it, and wait for each other. The caller that I give way to
 * is known to rest as soon as it does. */
static int is_core_busy(endpoint *e, int64_t now) {
    return now < e->by_others.until || (now < e->by_ranks.until && some_are_late(e)) ||
           (now < e->by_caller.until && caller_computes(e));
}

/* Let others run on my core, unless that has been long of late: who computes gets a slice of
 * time for each yield, where a sleep costs me none. */
static int yield_core(endpoint *e) {
    int64_t begun = ticks();
    spread(e, begun);
    if (is_core_busy(e, begun)) return 0;
    hide_core(e, begun);
    sched_yield();
    int64_t ended = ticks(), passed = ended - begun;
    show_core(e, ended);
    if (!is_long(e, begun, ended)) return 1;
    if (had_by_ranks(e, begun, ended) >= passed / 2) {
        expect_busy(&e->by_ranks, begun, ended);
    } else if (caller_computes(e)) {
        expect_busy(&e->by_caller, begun, ended);
    } else {
        expect_busy(&e->by_others, begun, ended);
        regret(e, ended);
    }
    return 1;
}

/* To be called when nothing could be done; the caller tries again in between. */
static int endpoint_pause(endpoint *e, int64_t *idle) {
    const wait_turns *turns = caller_computes(e) ? &e->aside : &e->usual;
    if (is_hopeful(e, turns->hopes)) {
        relax();
        return GO_ON;
    }
    int64_t yields = e->brief ? turns->yields : turns->yields_in_waves;
    int64_t turn = (*idle)++, to_sleep = turns->spins + yields;
    if (turn < turns->spins) {
        relax();
        return GO_ON;
    }
    if (turn < to_sleep && yield_core(e)) return has_failed(e, e->sequence) ? STOP : GO_ON;
    *idle = to_sleep; /* from now on, sleep first */
    if (!LOAD(&e->me->asleep)) {
        arm(e);
        return GO_ON;
    }
    int64_t longer = 1 + e->naps++ / 4;
    int64_t most = e->nap * (longer < LONGER ? longer : LONGER);
    struct timespec nap = {0, most < NAP_NANOSECONDS ? most : NAP_NANOSECONDS};
    hide_core(e, ticks());
    syscall(SYS_futex, &e->me->bell, FUTEX_WAIT, e->bell_seen, &nap, NULL, 0);
    show_core(e, ticks());
    STORE(&e->me->asleep, 0);
    return check(e);
}

/* To be called when the wait is over. */
static void endpoint_resume(endpoint *e) {
    if (LOAD(&e->me->asleep)) STORE(&e->me->asleep, 0);
    e->naps = 0;
    e->hope_ends = 0;
}

#endif
