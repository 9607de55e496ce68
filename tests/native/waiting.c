/* Who runs a call for a thread gives way to it while that computes, and only then; and a
 * core is taken for busy the longer, the more yields in a row are long. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "waiting.h"

enum { COMPUTES, RESTS_NOW, LEAVES };
static int does = COMPUTES;

static void *caller(void *unused) {
    while (LOAD(&does) == COMPUTES) relax();
    while (LOAD(&does) == RESTS_NOW) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return unused;
}

/* Wait so until it is as is to be seen in the end; a shared machine may be slow. */
static void becomes(endpoint *e, const wait_turns *turns) {
    int64_t end = nanoseconds() + 60000000000;
    while (turns_now(e) != turns)
        if (nanoseconds() > end) abort();
}

static void gives_way(void) {
    endpoint e = {.caller = NOBODY};
    clockid_t clock;
    pthread_t thread;
    if (turns_now(&e) != &e.usual) abort();
    pthread_create(&thread, NULL, caller, NULL);
    pthread_getcpuclockid(thread, &clock);
    endpoint_give_way(&e, clock);
    if (turns_now(&e) != &e.aside) abort(); /* nothing is known yet */
    STORE(&does, RESTS_NOW);
    becomes(&e, &e.usual);
    STORE(&does, LEAVES);
    pthread_join(thread, NULL);
    becomes(&e, &e.usual); /* there is nobody left */
    endpoint_give_way(&e, NOBODY);
    if (turns_now(&e) != &e.usual) abort();
}

static void forgets_a_single_long_yield(void) {
    endpoint e = {0};
    int64_t now = 1000000000000, long_ago;
    for (int turn = 0; turn < 5; turn++) {
        expect_busy(&e, now, now + LONG_YIELD);
        if (e.busy_until != now + LONG_YIELD + BUSY_AT_LEAST) abort();
        now = e.busy_until + BUSY_AGAIN * BUSY_AT_LEAST;
    }
    for (int turn = 0; turn < 5; turn++) {
        long_ago = e.busy_for;
        expect_busy(&e, e.busy_until, e.busy_until + LONG_YIELD);
        if (e.busy_for <= long_ago && e.busy_for != BUSY_AT_MOST) abort();
    }
    if (e.busy_for != BUSY_AT_MOST) abort();
}

int main(void) {
    gives_way();
    forgets_a_single_long_yield();
    puts("all right");
    return 0;
}
