/* Copies into staging memory: into the caches, or past them. */
#ifndef COLLALGO_STAGED_COPY_H
#define COLLALGO_STAGED_COPY_H

#include "copy.h"
#include "endpoint.h"

/* A line that is still in the cache of its last reader must be invalidated there before it
 * can be written. Between caches that are far apart, as on two dies or two sockets, this takes
 * ten times as long as a write past all caches. The distance cannot be known in advance, for
 * threads and virtual machines move. So each rank measures it as it writes. */
#define FAR 24       /* ticks per line from which writes past the caches are faster */
#define FARTHEST 64  /* the most ticks counted for a line: above, its page was new */
#define MEASURE_EVERY 32 /* parts for each measured one, where measuring is expensive */
#define WEIGHT 0.25  /* of the last part in the moving average */

/* After the copy of a short part, its lines are still in the store buffer, and are taken from
 * their reader later. So the measurement drains the buffer, which takes some time by itself.
 * If the source came from memory, the measurement would include the latency of memory, on an
 * Intel Xeon that of far caches: four ranks that share cores then wrote past near caches, and
 * took long allreduces 1.1 times as long. So the source is loaded before the measurement. */
#define MEASURABLE_BYTES 1024 /* the shortest part whose time is meaningful */
#define BUFFERED_BYTES 16384  /* the store buffer hides little of longer parts */
#define DRAINING 100          /* ticks to drain a buffer that is almost empty */

/* A processor requests the lines that it writes one after the other. On Intel a prefetch of
 * all of them shortens the copy of short parts: 0.92 to 0.97 times as long. */
#define PREFETCH_BYTES 16384 /* the shortest part that is not prefetched */

/* Request ownership of lines that are about to be written. */
static inline void prefetch_to_write(const char *lines, int64_t nbytes) {
    for (int64_t at = 0; at < nbytes; at += CACHE_LINE)
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" : : "m"(lines[at]));
#else
        __builtin_prefetch(lines + at, 1);
#endif
}

/* Wait until the store buffer is empty. */
static inline void drain(void) {
#if defined(__x86_64__)
    _mm_mfence();
    _mm_lfence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Load lines into the first cache. */
static inline void fetch_lines(const char *lines, int64_t nbytes) {
    for (int64_t at = 0; at < nbytes; at += CACHE_LINE)
        __asm__ volatile("" : : "r"(*(const volatile char *)(lines + at)));
#if defined(__x86_64__)
    _mm_lfence();
#endif
}

/* Copy into the caches, and measure the time per line. */
static inline void copy_and_measure(staging_state *s, char *target, const char *data,
                                    int64_t nbytes) {
    int is_buffered = nbytes < BUFFERED_BYTES;
    int64_t looked = is_buffered ? nbytes : BUFFERED_BYTES;
    fetch_lines(data, looked);
    if (is_buffered) drain(); /* earlier writes do not count */
    int64_t begun = ticks();
    copy_in_order(target, data, looked);
    if (is_buffered) {
        drain();
        begun += DRAINING;
    }
    double taken = (double)(ticks() - begun) * CACHE_LINE / (double)looked;
    if (taken > FARTHEST) taken = FARTHEST;
    s->line_ticks += WEIGHT * (taken - s->line_ticks);
    copy_in_order(target + looked, data + looked, nbytes - looked);
}

/* Copy a part of a message to its staging memory. */
static inline void stage(staging_state *s, char *target, const char *data, int64_t nbytes) {
    int far = nbytes >= SHORT_STREAM && s->line_ticks >= FAR;
    int is_expensive = far || nbytes < BUFFERED_BYTES; /* to measure */
    if (nbytes >= MEASURABLE_BYTES &&
        (!is_expensive || ++s->staged_parts % MEASURE_EVERY == 0))
        copy_and_measure(s, target, data, nbytes);
    else if (far)
        stream_bytes(target, data, nbytes);
    else {
        if (moves_lines && nbytes < PREFETCH_BYTES) prefetch_to_write(target, nbytes);
        copy_in_order(target, data, nbytes);
    }
}

#endif
