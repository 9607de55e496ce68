/* Who runs a call for a thread gives way to it while that computes, and only then. */
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

int main(void) {
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
    puts("all right");
    return 0;
}
