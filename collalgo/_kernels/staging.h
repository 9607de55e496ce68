/* How a rank writes what others will read: into its caches, or past them. */
#ifndef COLLALGO_STAGING_H
#define COLLALGO_STAGING_H

#include "copy.h"
#include "endpoint.h"

/* A line that its last reader still has must be taken away from it before it can be
 * written. Between caches that are far apart, as of two dies or two sockets, that takes
 * ten times as long as to write past all caches, and no rank can know how far apart they
 * are: threads move, and so do virtual machines. So each finds out as it writes. */
#define FAR 32       /* ticks for a line from which on it is better to write past caches */
#define FARTHEST 64  /* ticks that a line may count for: longer, and its page was new */
#define LOOK_EACH 32 /* one in so many parts is written into the caches all the same */
#define WEIGHT 0.125 /* of the last part among those before it */

/* Write a part of a message where it is staged. */
static void stage(endpoint *e, char *target, const char *data, int64_t nbytes) {
    if (nbytes < LONG_COPY) {
        copy_bytes(target, data, nbytes);
        return;
    }
    if (e->line_ticks >= FAR && ++e->streamed % LOOK_EACH) {
        stream_bytes(target, data, nbytes);
        return;
    }
    int64_t begun = ticks();
    copy_bytes(target, data, nbytes);
    double taken = (double)(ticks() - begun) * CACHE_LINE / (double)nbytes;
    if (taken > FARTHEST) taken = FARTHEST;
    e->line_ticks += WEIGHT * (taken - e->line_ticks);
}

#endif
