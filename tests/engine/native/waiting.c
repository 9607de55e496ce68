/* A background call leaves the core to its caller while that computes, and only then; a core
 * counts as busy the longer, the more yields in a row are long; a rank that polls an engine yields
 * on while they are not; and a rank that shares a core moves to one with fewer ranks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "cores.h"

/* No yield takes long by this clock, however busy the machine is. */
static int64_t steady_ticks(void) {
    static int64_t now = 1000000000000;
    return ++now;
}
#define ticks steady_ticks
#include "waiting.h"

enum { COMPUTES, RESTS_NOW, LEAVES };
static int does = COMPUTES;

static void *caller(void *unused) {
    while (LOAD(&does) == COMPUTES) relax();
    while (LOAD(&does) == RESTS_NOW) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return unused;
}

/* Wait until the caller is seen to compute, and to keep the core busy, or neither; a shared
 * machine may be slow. */
static void becomes(endpoint *e, int computes) {
    int64_t end = nanoseconds() + 60000000000;
    while (caller_computes(e) != computes || is_core_busy(e, 0) != computes)
        if (nanoseconds() > end) abort();
}

static void yields_core(void) {
    endpoint e = {.caller = NO_CALLER, .by_caller.until = INT64_MAX};
    clockid_t clock;
    pthread_t thread;
    if (caller_computes(&e) || is_core_busy(&e, 0)) abort();
    pthread_create(&thread, NULL, caller, NULL);
    pthread_getcpuclockid(thread, &clock);
    endpoint_yield_core(&e, clock);
    if (!caller_computes(&e)) abort(); /* nothing is known yet */
    becomes(&e, 1);
    STORE(&does, RESTS_NOW);
    becomes(&e, 0);
    STORE(&does, LEAVES);
    pthread_join(thread, NULL);
    becomes(&e, 0); /* the thread has ended */
    endpoint_yield_core(&e, NO_CALLER);
    if (caller_computes(&e)) abort();
}

static void forgets_a_single_long_yield(void) {
    busy_spell spell = {0};
    int64_t now = 1000000000000, long_ago;
    for (int turn = 0; turn < 5; turn++) {
        expect_busy(&spell, now, now + LONG_YIELD);
        if (spell.until != now + LONG_YIELD + BUSY_AT_LEAST) abort();
        now = spell.until + BUSY_AGAIN * BUSY_AT_LEAST;
    }
    for (int turn = 0; turn < 5; turn++) {
        long_ago = spell.length;
        expect_busy(&spell, spell.until, spell.until + LONG_YIELD);
        if (spell.length <= long_ago && spell.length != BUSY_AT_MOST) abort();
    }
    if (spell.length != BUSY_AT_MOST) abort();
}

/* One slow yield may be accidental; a second one soon after it, or a long one, is not. */
static void distinguishes_slow_yields_from_long_ones(void) {
    endpoint e = {0};
    int64_t now = 1000000000000, slow = SLOW_YIELD + 1;
    if (is_long_yield(&e, now, now + SLOW_YIELD) || is_long_yield(&e, now, now + slow)) abort();
    if (!is_long_yield(&e, now + slow + 1, now + 2 * slow + 1)) abort();
    now += 2 * slow + 1 + BUSY_AT_LEAST;
    if (is_long_yield(&e, now, now + slow)) abort();
    now += slow + BUSY_AT_LEAST;
    if (!is_long_yield(&e, now, now + LONG_YIELD + 1)) abort();
}

static char *new_world(void) {
    char *base = mmap(NULL, (size_t)segment_bytes(4), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) abort();
    return base;
}

/* Ranks keep a core busy only until all are in the call, other processes always. */
static void expects_ranks_only_before_a_call(void) {
    char *base = new_world();
    endpoint *e = endpoint_new(base, NULL, 0, 0, 4, 1, 0);
    endpoint_announce(e);
    e->sequence = 7;
    for (int r = 0; r < 4; r++) header(e, r)->entered = 7;
    e->by_ranks.until = 100;
    if (is_core_busy(e, 50)) abort();
    header(e, 2)->entered = 6;
    if (!is_core_busy(e, 50) || is_core_busy(e, 100)) abort();
    header(e, 2)->entered = 8;
    if (is_core_busy(e, 50)) abort();
    e->by_others.until = 60;
    if (!is_core_busy(e, 50) || is_core_busy(e, 60)) abort();
    endpoint_free(e);
    munmap(base, (size_t)segment_bytes(4));
}

/* A rank that goes to sleep relies on fences only once all ranks have announced theirs. */
static void knows_whether_all_fence(void) {
    char *base = new_world();
    endpoint *e = endpoint_new(base, NULL, 0, 0, 2, 1, 0);
    endpoint_announce(e);
    endpoint_fence(e);
    if (!e->fences || all_fence(e)) abort(); /* the other has not even come */
    endpoint *other = endpoint_new(base, NULL, 0, 1, 2, 1, 0);
    endpoint_announce(other);
    if (all_fence(e) != other->fences) abort(); /* by itself only without membarrier */
    endpoint_share_cores(other);
    if (!all_fence(e) || !all_fence(other)) abort();
    endpoint_free(e), endpoint_free(other);
    munmap(base, (size_t)segment_bytes(4));
}

/* The ticks that other ranks had on this core, whether they have stopped or not. */
static void counts_the_ticks_of_ranks_on_this_core(void) {
    char *base = new_world();
    endpoint *e = endpoint_new(base, NULL, 0, 0, 4, 1, 0);
    endpoint_announce(e);
    for (int r = 0; r < 4; r++) header(e, r)->place = 1 + (r == 3);
    header(e, 1)->ran_since = 900, header(e, 1)->ran_until = 1030;
    header(e, 2)->ran_since = 1080, header(e, 2)->ran_until = 700;
    header(e, 3)->ran_since = 900, header(e, 3)->ran_until = 700; /* on another core */
    if (ticks_of_other_ranks(e, 1000, 1100) != 30 + 20) abort();
    header(e, 1)->ran_until = 990; /* before */
    if (ticks_of_other_ranks(e, 1000, 1100) != 20) abort();
    endpoint_free(e);
    munmap(base, (size_t)segment_bytes(4));
}

/* The core that a rank moves to, given the last cores of all ranks and two allowed cores. */
static int goes(char *base, int64_t rank, const int32_t places[4], int core, int other) {
    endpoint *e = endpoint_new(base, NULL, 0, rank, 4, 1, 0);
    endpoint_announce(e);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    CPU_SET(core, &allowed), CPU_SET(other, &allowed);
    for (int r = 0; r < 4; r++) header(e, r)->place = places[r] + 1;
    int found = less_loaded_core(e, &allowed);
    endpoint_free(e);
    return found;
}

static void finds_a_less_loaded_core(void) {
    char *base = new_world();
    const int32_t unseen = -1, crowded[4] = {5, 5, 7, 5}, even[4] = {5, 7, 7, 5};
    const int32_t first[4] = {5, 5, unseen, unseen}, uneven[4] = {5, 7, 5, unseen};
    if (goes(base, 3, crowded, 5, 7) != 7) abort();
    if (goes(base, 1, crowded, 5, 7) != NOWHERE) abort(); /* only the last one moves */
    if (goes(base, 2, crowded, 5, 7) != NOWHERE) abort();
    if (goes(base, 3, crowded, 5, 5) != NOWHERE) abort(); /* it may not run elsewhere */
    if (goes(base, 3, crowded, 5, 6) != 6) abort();
    if (goes(base, 3, even, 5, 7) != NOWHERE) abort();
    if (goes(base, 1, first, 5, 7) != 7) abort();
    if (goes(base, 2, first, 5, 7) != NOWHERE) abort(); /* its own core is unknown */
    if (goes(base, 2, uneven, 5, 7) != NOWHERE) abort();
    munmap(base, (size_t)segment_bytes(4));
}

/* A long yield after a move marks a mistake; a second one in a row doubles the pause. */
static void stays_after_a_mistake(void) {
    endpoint e = {0};
    int64_t now = 1000000000000;
    e.moved = now;
    delay_next_move(&e, now + MISTAKE_TICKS + 1);
    if (e.spread_at) abort();
    delay_next_move(&e, now + 1);
    if (e.spread_at != now + 1 + STAY_AT_LEAST) abort();
    e.moved = now;
    delay_next_move(&e, now + 1);
    if (e.spread_at != now + 1 + STAY_LONGER * STAY_AT_LEAST) abort();
}

/* Pauses of a wait without its checks for failures, until the rank sleeps. */
static int pause_often(endpoint *e, int64_t *idle, int times) {
    for (int i = 0; i < times && !LOAD(&e->me->asleep); i++) {
        e->waiting_since = 0;
        if (endpoint_pause(e, idle) != GO_ON) abort();
    }
    return LOAD(&e->me->asleep) != 0;
}

/* The number of pauses before a rank sleeps that polls an engine or not, of at most a thousand;
 * after `busy` of them another process computes on its core. */
static int pauses_before_sleep(int polls, int busy, int64_t polls_until) {
    char *base = new_world();
    endpoint *e = endpoint_new(base, NULL, 0, 0, 2, 1, 0);
    endpoint_announce(e);
    e->usual = (wait_policy){.spins = 3, .yields = 20};
    e->polls = polls;
    int64_t idle = 0;
    int pauses = 0;
    for (; pauses < 1000 && !pause_often(e, &idle, 1); pauses++) {
        if (pauses == busy) e->by_others.until = INT64_MAX;
        if (pauses == 10 && polls_until) e->polls_until = polls_until;
    }
    endpoint_free(e);
    munmap(base, (size_t)segment_bytes(4));
    return pauses;
}

static void polls_on_while_its_core_is_its_own(void) {
    if (pauses_before_sleep(0, INT32_MAX, 0) != 23) abort();
    if (pauses_before_sleep(1, INT32_MAX, 0) != 1000) abort();
    if (pauses_before_sleep(1, 200, 0) > 201) abort();
    if (pauses_before_sleep(1, INT32_MAX, 1) != 23) abort(); /* it has polled for long */
    if (pauses_before_sleep(0, 10, 0) != 11) abort();
}

int main(void) {
    yields_core();
    polls_on_while_its_core_is_its_own();
    finds_a_less_loaded_core();
    stays_after_a_mistake();
    forgets_a_single_long_yield();
    distinguishes_slow_yields_from_long_ones();
    knows_whether_all_fence();
    expects_ranks_only_before_a_call();
    counts_the_ticks_of_ranks_on_this_core();
    puts("all right");
    return 0;
}
