/* The cheapest clock of the processor, and a clock in nanoseconds. */
#ifndef COLLALGO_TICKS_H
#define COLLALGO_TICKS_H

#include <stdint.h>
#include <time.h>

static inline int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__x86_64__)
#include <x86intrin.h>
static inline int64_t ticks(void) { return (int64_t)__rdtsc(); }
#else
static inline int64_t ticks(void) { return nanoseconds(); }
#endif

#endif
