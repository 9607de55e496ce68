/* How a rank writes what others will read: into its caches, or past them. */
#ifndef COLLALGO_STAGING_H
#define COLLALGO_STAGING_H

#include "copy.h"
#include "endpoint.h"

/* A line that its last reader still has must be taken away from it before it can be
 * written. Between caches that are far apart, as of two dies or two sockets, that takes
 * ten times as long as to write past all caches, and no rank can know how far apart they
 * are: threads move, and so do virtual machines. So each finds out as it writes. */
#define FAR 24       /* ticks for a line from which on it is better to write past caches */
#define FARTHEST 64  /* ticks that a line may count for: longer, and its page was new */
#define LOOK_EACH 32 /* one in so many parts is looked at where each would be dear */
#define WEIGHT 0.25  /* of the last part among those before it */

/* A short part is in the store buffer when it has been copied, and its lines are taken from
 * their reader later: it tells once nothing is left there, which takes some time by itself.
 * A part that comes from memory would tell how far that is: on an Intel Xeon as far as far
 * caches, so that four ranks which share cores wrote past caches that are near, and took
 * long allreduces 1.1 times as long. So what is looked at is fetched before. */
#define TELLING_BYTES 1024 /* what is shorter tells nothing */
#define BUFFERED_BYTES 16384 /* of so many the buffer hides little, and more tell no more */
#define DRAINING 100 /* ticks, of a buffer with little in it */

/* A processor asks for the lines that it writes in their order, and not for all at once. Of
 * Intel's it is known that short parts take less if it is told them before: 0.92 to 0.97. */
#define ASKED_BYTES 16384 /* for which it is not asked any more */

/* Ask for lines that I am about to write, and that a reader still has in its cache. */
static inline void own(const char *lines, int64_t nbytes) {
    for (int64_t at = 0; at < nbytes; at += CACHE_LINE)
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" : : "m"(lines[at]));
#else
        __builtin_prefetch(lines + at, 1);
#endif
}

/* Wait until nothing that I have written is in the store buffer. */
static void drain(void) {
#if defined(__x86_64__)
    _mm_mfence();
    _mm_lfence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Have lines in the nearest cache. */
static void fetch_lines(const char *lines, int64_t nbytes) {
    for (int64_t at = 0; at < nbytes; at += CACHE_LINE)
        __asm__ volatile("" : : "r"(*(const volatile char *)(lines + at)));
#if defined(__x86_64__)
    _mm_lfence();
#endif
}

/* Copy into the caches, and note what a line took to write. */
static void copy_and_look(endpoint *e, char *target, const char *data, int64_t nbytes) {
    int is_buffered = nbytes < BUFFERED_BYTES;
    int64_t looked = is_buffered ? nbytes : BUFFERED_BYTES;
    fetch_lines(data, looked);
    if (is_buffered) drain(); /* what was written before does not count */
    int64_t begun = ticks();
    copy_in_order(target, data, looked);
    if (is_buffered) {
        drain();
        begun += DRAINING;
    }
    double taken = (double)(ticks() - begun) * CACHE_LINE / (double)looked;
    if (taken > FARTHEST) taken = FARTHEST;
    e->line_ticks += WEIGHT * (taken - e->line_ticks);
    copy_in_order(target + looked, data + looked, nbytes - looked);
}

/* Write a part of a message where it is staged. */
static void stage(endpoint *e, char *target, const char *data, int64_t nbytes) {
    int far = nbytes >= SHORT_STREAM && e->line_ticks >= FAR;
    int is_dear = far || nbytes < BUFFERED_BYTES; /* to look */
    if (nbytes >= TELLING_BYTES && (!is_dear || ++e->staged % LOOK_EACH == 0))
        copy_and_look(e, target, data, nbytes);
    else if (far)
        stream_bytes(target, data, nbytes);
    else {
        if (moves_lines && nbytes < ASKED_BYTES) own(target, nbytes);
        copy_in_order(target, data, nbytes);
    }
}

#endif
