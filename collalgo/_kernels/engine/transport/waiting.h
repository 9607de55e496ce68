/* The wait of a rank: it spins, then yields, then sleeps until a peer rings its bell. */
#ifndef COLLALGO_WAITING_H
#define COLLALGO_WAITING_H

#include "calls.h"
#include "cores.h"

#define SLOW_YIELD 1200000     /* ticks, half a millisecond */
#define LONG_YIELD 4000000     /* ticks, one to two milliseconds */
#define POLLS_AT_MOST 50000000 /* ticks, about twenty milliseconds */
#define BUSY_AT_LEAST 8000000  /* ticks, a few milliseconds */
#define BUSY_AT_MOST 300000000 /* ticks, about a tenth of a second */
#define BUSY_AGAIN 4           /* the growth of a busy spell, and of the gap that ends it */
#define CLOCK_INTERVAL 100000  /* nanoseconds between two readings of the clock of a caller */
#define IDLE_SHARE 4           /* a caller is idle if it computes less than 1 / IDLE_SHARE */

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether all ranks are known to fence. */
static inline int all_fence(endpoint *e) {
    for (int64_t r = 0; r < e->size && !e->all_fence; r++)
        if (!LOAD(&header(e, r)->fences)) return 0;
    return e->all_fence = 1;
}

/* Announce that this rank is about to sleep. A sender then sees the announcement, or this rank
 * sees the message: unless all ranks fence, a membarrier orders it on their processors. */
static inline void announce_sleep(endpoint *e) {
    __atomic_store_n(&e->me->asleep, 1, __ATOMIC_SEQ_CST);
    e->bell_seen = LOAD(&e->me->bell);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!all_fence(e)) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

/* Yield the core to the thread of a caller while it computes, by the clock of its processor time;
 * NO_CALLER ends this. */
static inline void endpoint_yield_core(endpoint *e, clockid_t caller) {
    e->caller = caller;
    e->caller_read_at = 0;
    e->caller_idle = 0;
}

/* Whether the caller has hardly computed since the last reading: it waits for this thread, or for
 * a core, which a yield can give it. */
static inline int caller_is_idle(endpoint *e) {
    struct timespec t;
    int64_t now = nanoseconds(), used = 0;
    if (now < e->caller_read_at + CLOCK_INTERVAL) return e->caller_idle;
    if (!clock_gettime(e->caller, &t)) used = t.tv_sec * 1000000000 + t.tv_nsec;
    e->caller_idle = e->caller_read_at &&
                     IDLE_SHARE * (used - e->caller_used) < now - e->caller_read_at;
    e->caller_read_at = now, e->caller_used = used;
    return e->caller_idle;
}

static inline int caller_computes(endpoint *e) {
    return e->caller != NO_CALLER && !caller_is_idle(e);
}

/* Whether all ranks that this one waits for run on other cores. A yield would then return only
 * after the turns of the ranks on this core, which takes longer than the wait. */
static inline int keeps_spinning(endpoint *e, int64_t spin_ticks) {
    uint64_t missing = e->missing;
    e->missing = 0;
    if (!missing || !spin_ticks) return 0;
    int64_t now = ticks();
    if (!e->spin_ends) e->spin_ends = now + spin_ticks;
    if (now >= e->spin_ends) return 0;
    for (; missing; missing &= missing - 1) {
        const rank_header *peer = header(e, __builtin_ctzll(missing));
        int32_t core = __atomic_load_n(&peer->core, __ATOMIC_RELAXED);
        if (core == 0 || core == e->me->core) return 0;
    }
    return 1;
}

/* Expect more long yields after one. A single long yield may be accidental, so its spell is
 * short; a process that computes makes the next yield long, too. */
static inline void expect_busy(busy_spell *spell, int64_t begun, int64_t ended) {
    int64_t longer = BUSY_AGAIN * spell->length;
    if (begun - spell->until >= longer) longer = BUSY_AT_LEAST;
    spell->length = longer < BUSY_AT_MOST ? longer : BUSY_AT_MOST;
    spell->until = ended + spell->length;
}

/* Whether a yield shows that another process computes: one very long yield, or two slow ones in
 * a row. */
static inline int is_long_yield(endpoint *e, int64_t begun, int64_t ended) {
    if (ended - begun <= SLOW_YIELD) return 0;
    int again = begun - e->slow_yield < BUSY_AT_LEAST;
    e->slow_yield = ended;
    return again || ended - begun > LONG_YIELD;
}

/* Whether a rank has not entered this call yet. */
static inline int is_any_rank_late(endpoint *e) {
    for (int64_t r = 0; r < e->size; r++)
        if (LOAD(&header(e, r)->entered) < (uint64_t)e->sequence) return 1;
    return 0;
}

/* Whether a yield is likely to be long. Once all ranks are in the call they no longer compute
 * for themselves. The clock of the caller shows whether it computes. */
static inline int is_core_busy(endpoint *e, int64_t now) {
    return now < e->by_others.until || (now < e->by_ranks.until && is_any_rank_late(e)) ||
           (now < e->by_caller.until && caller_computes(e));
}

/* Yield the core, unless yields have been long lately: a process that computes gets a time
 * slice at each yield, while a sleep costs this rank nothing. */
static inline int yield_core(endpoint *e) {
    int64_t begun = ticks();
    move_to_less_loaded_core(e, begun);
    if (is_core_busy(e, begun)) return 0;
    clear_core(e, begun);
    sched_yield();
    int64_t ended = ticks(), passed = ended - begun;
    publish_core(e, ended);
    if (!is_long_yield(e, begun, ended)) return 1;
    if (ticks_of_other_ranks(e, begun, ended) >= passed / 2) {
        expect_busy(&e->by_ranks, begun, ended);
    } else if (caller_computes(e)) {
        expect_busy(&e->by_caller, begun, ended);
    } else {
        expect_busy(&e->by_others, begun, ended);
        delay_next_move(e, ended);
    }
    return 1;
}

/* Sleep until the bell rings, longer from one sleep to the next: whether it did not ring. */
static inline int sleep_once(endpoint *e) {
    int64_t longer = 1 + e->sleeps++ / 4;
    int64_t most = e->first_sleep * (longer < SLEEP_GROWTH ? longer : SLEEP_GROWTH);
    struct timespec limit = {0, most < SLEEP_NANOSECONDS ? most : SLEEP_NANOSECONDS};
    clear_core(e, ticks());
    int rang = !syscall(SYS_futex, &e->me->bell, FUTEX_WAIT, e->bell_seen, &limit, NULL, 0);
    publish_core(e, ticks());
    STORE(&e->me->asleep, 0);
    return !rang && LOAD(&e->me->bell) == e->bell_seen;
}

/* Whether to go on with yields, for a while: a sleeper is not woken by messages from other hosts.
 * Many yields of a core that another process computes on would end later than a sleep. */
static inline int keep_polling(endpoint *e) {
    int64_t now = ticks();
    return e->polls && !LOAD(&e->me->asleep) && now < e->polls_until && !is_core_busy(e, now);
}

/* Announce a sleep in one pause, and sleep in the next ones. */
static inline int fall_asleep(endpoint *e) {
    if (LOAD(&e->me->asleep)) return check(e, sleep_once(e));
    announce_sleep(e);
    return GO_ON;
}

/* Pause once after a poll without progress; the engine polls between two pauses. */
static inline int endpoint_pause(endpoint *e, int64_t *idle) {
    const wait_policy *policy = caller_computes(e) ? &e->background : &e->usual;
    if (keeps_spinning(e, policy->spin_ticks)) {
        relax();
        return GO_ON;
    }
    int64_t turn = (*idle)++, to_sleep = policy->spins + policy->yields;
    if (turn < policy->spins) {
        relax();
        return GO_ON;
    }
    if (turn == policy->spins) e->polls_until = ticks() + POLLS_AT_MOST;
    if (turn < to_sleep && yield_core(e)) return has_failed(e, e->sequence) ? STOP : GO_ON;
    if (turn == to_sleep && policy == &e->usual && keep_polling(e)) {
        *idle = policy->spins + 1;
        return check(e, 0);
    }
    *idle = to_sleep; /* the next pauses sleep at once */
    return fall_asleep(e);
}

/* Whether this rank sleeps, or is about to. */
static inline int endpoint_sleeps(const endpoint *e) { return LOAD(&e->me->asleep) != 0; }

/* End a wait. */
static inline void endpoint_resume(endpoint *e) {
    if (LOAD(&e->me->asleep)) STORE(&e->me->asleep, 0);
    e->sleeps = 0;
    e->spin_ends = 0;
}

/* Whether all ranks have attached. */
static inline int all_attached(const endpoint *e) {
    for (int64_t r = 0; r < e->size; r++)
        if (LOAD(&header(e, r)->status) == RANK_ABSENT) return 0;
    return 1;
}

/* Wait until all ranks have attached: 0 if that takes long, after a check for failures. */
static inline int endpoint_await_all(endpoint *e) {
    int64_t idle = 0;
    int attached;
    endpoint_begin_wait(e);
    while (!(attached = all_attached(e)) && endpoint_pause(e, &idle) == GO_ON);
    endpoint_resume(e);
    return attached;
}

#endif
