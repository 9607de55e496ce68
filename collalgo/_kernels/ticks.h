/* The cheapest clock there is, and where the interpreter is. */
#ifndef COLLALGO_TICKS_H
#define COLLALGO_TICKS_H

#include <Python.h>
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

/* The instruction that a frame is at, as PyCode_Addr2Line takes it. */
static inline int instruction_of(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return 2 * frame->f_lasti;
#endif
}

#endif
