/* Reductions with several targets: the result goes to this rank and to the readers of the next
 * message at once, so the inputs are read once. */
#ifndef COLLALGO_REDUCE_FORWARD_H
#define COLLALGO_REDUCE_FORWARD_H

#include "copy.h"
#include "reduce.h"

/* Bytes reduced at a time: they stay in the first cache until all targets are written. Past the
 * caches, the unit is shorter, so that no line stays incomplete for long. */
#define FORWARDED_BYTES 4096
#define STREAMED_BYTES 256

/* A reduction: its kernel, its inputs, and its divisor, if any. */
typedef struct {
    reduce_fn function;
    const float8_tables *tables;
    const void **inputs; /* advanced as they are reduced */
    int64_t n, itemsize, divisor;
} reduction;

/* Reduce the next bytes into a target. */
static inline void reduce_next(const reduction *r, char *target, int64_t nbytes) {
    r->function(target, r->inputs, r->n, nbytes / r->itemsize, r->divisor, r->tables);
    for (int64_t i = 0; i < r->n; i++)
        r->inputs[i] = (const char *)r->inputs[i] + nbytes;
}

/* Reduce into all targets, through the caches. */
static inline void reduce_forward(const reduction *r, char **targets, int64_t count,
                                  int64_t nbytes) {
    while (nbytes > 0) {
        int64_t part = nbytes < FORWARDED_BYTES ? nbytes : FORWARDED_BYTES;
        reduce_next(r, targets[0], part);
        for (int64_t i = 1; i < count; i++) copy_bytes(targets[i], targets[0], part);
        for (int64_t i = 0; i < count; i++) targets[i] += part;
        nbytes -= part;
    }
}

/* The bytes to the next cache line, or -1 if they differ or are no whole elements. */
static inline int64_t to_next_line(const reduction *r, char *const *targets, int64_t count) {
    int64_t head = -(uintptr_t)targets[0] % CACHE_LINE;
    for (int64_t i = 1; i < count; i++)
        if (-(uintptr_t)targets[i] % CACHE_LINE != (uintptr_t)head) return -1;
    return head % r->itemsize ? -1 : head;
}

/* Reduce into all targets, with whole lines past the caches. */
static inline void reduce_forward_streamed(const reduction *r, char **targets, int64_t count,
                                           int64_t nbytes) {
    _Alignas(CACHE_LINE) char block[STREAMED_BYTES];
    int64_t head = to_next_line(r, targets, count);
    if (head >= 0 && head < nbytes) {
        reduce_forward(r, targets, count, head);
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
    reduce_forward(r, targets, count, nbytes);
}

#endif
