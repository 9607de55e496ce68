/* The rings in which a rank stages its messages. */
#ifndef COLLALGO_RINGS_H
#define COLLALGO_RINGS_H

#include <sys/mman.h>

#include "endpoint.h"

#ifndef MADV_POPULATE_READ /* of Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define NOT_YET UINT64_MAX /* the number of a message that is not sent yet */

/* Whether the reader of a channel has acknowledged a message. */
static inline int acked(endpoint *e, int64_t channel, uint64_t number) {
    channel_state *c = e->channels + channel;
    if (c->acked >= number) return 1;
    c->acked = LOAD(&c->acks_in->count);
    return c->acked >= number;
}

static inline hold *hold_at(const ring *r, int64_t index) {
    return r->holds + index % r->capacity;
}

/* Allocate a run of a ring until all readers have acknowledged messages whose numbers are set
 * later. Return its offset in the region of this rank, or -1 if there is no room now. */
static inline int64_t ring_take(endpoint *e, ring *r, int64_t nbytes, const int64_t *channels,
                                int64_t readers) {
    for (; r->first < r->last; r->first++) {
        hold *oldest = hold_at(r, r->first);
        if (!acked(e, oldest->channel, oldest->number)) break;
        r->tail = oldest->end;
    }
    if (r->first == r->last && r->head % r->bytes >= r->restart_bytes)
        r->tail = r->head = round_up(r->head, r->bytes);
    int64_t start = r->head;
    if (start % r->bytes + nbytes > r->bytes) start = round_up(start, r->bytes);
    if (start + nbytes - r->tail > r->bytes) return -1;
    if (r->last - r->first + readers > r->capacity) return -1;
    r->head = start + nbytes;
    for (int64_t i = 0; i < readers; i++)
        *hold_at(r, r->last++) =
            (hold){channels[i], NOT_YET, i + 1 < readers ? start : r->head};
    return r->offset + start % r->bytes;
}

/* Map the parts of the long rings of a rank that hold a message before their first use, each
 * with one call: a page fault takes as long as ten short messages. Older kernels map the pages
 * by faults. */
static inline void populate(endpoint *e, int64_t rank, int64_t place, int64_t nbytes) {
    int64_t begin = place - e->large.offset, last = (begin + nbytes - 1) / PART_BYTES;
    if (begin < 0 || last >= e->parts) return;
    char *mapped = e->populated + rank * e->parts;
    char *rings = region(e, rank) + e->large.offset;
    for (int64_t part = begin / PART_BYTES; part <= last; part++) {
        if (mapped[part]) continue;
        mapped[part] = 1;
        madvise(rings + part * PART_BYTES, PART_BYTES,
                rank == e->rank ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    }
}

#endif
