/* A reduction that is written to several places at once: what each of them is read for, or
 * has to be read before it can be written, is then read once. */
#ifndef COLLALGO_RELAYING_H
#define COLLALGO_RELAYING_H

#include "copy.h"
#include "reduce.h"

/* What is made at once: it stays in the first cache until it has been written everywhere.
 * Past the caches lines are written so that none waits for long until it is whole. */
#define RELAYED_BYTES 4096
#define STREAMED_BYTES 256

/* What is reduced, from where, and by what it is divided, if by anything. */
typedef struct {
    reduce_fn function;
    const float8_tables *tables;
    const void **inputs; /* which the reduction moves on */
    int64_t n, itemsize, divisor;
} reduction;

/* Reduce the next bytes into a target. */
static void reduce_next(const reduction *r, char *target, int64_t nbytes) {
    r->function(target, r->inputs, r->n, nbytes / r->itemsize, r->divisor, r->tables);
    for (int64_t i = 0; i < r->n; i++)
        r->inputs[i] = (const char *)r->inputs[i] + nbytes;
}

/* The same into all of the targets, by way of the caches. */
static void relay(const reduction *r, char **targets, int64_t count, int64_t nbytes) {
    while (nbytes > 0) {
        int64_t part = nbytes < RELAYED_BYTES ? nbytes : RELAYED_BYTES;
        reduce_next(r, targets[0], part);
        for (int64_t i = 1; i < count; i++) copy_bytes(targets[i], targets[0], part);
        for (int64_t i = 0; i < count; i++) targets[i] += part;
        nbytes -= part;
    }
}

/* How far it is to the next line, or -1 if that is not the same for all, in elements. */
static int64_t to_next_line(const reduction *r, char *const *targets, int64_t count) {
    int64_t head = -(uintptr_t)targets[0] % CACHE_LINE;
    for (int64_t i = 1; i < count; i++)
        if (-(uintptr_t)targets[i] % CACHE_LINE != (uintptr_t)head) return -1;
    return head % r->itemsize ? -1 : head;
}

/* The same past the caches, whole lines at least. */
static void relay_past_caches(const reduction *r, char **targets, int64_t count,
                              int64_t nbytes) {
    _Alignas(CACHE_LINE) char block[STREAMED_BYTES];
    int64_t head = to_next_line(r, targets, count);
    if (head >= 0 && head < nbytes) {
        relay(r, targets, count, head);
        nbytes -= head;
        for (; nbytes >= STREAMED_BYTES; nbytes -= STREAMED_BYTES) {
            reduce_next(r, block, STREAMED_BYTES);
            for (int64_t i = 0; i < count; i++) {
                stream_lines(targets[i], block, STREAMED_BYTES);
                targets[i] += STREAMED_BYTES;
            }
        }
        end_stream();
    }
    relay(r, targets, count, nbytes);
}

#endif
