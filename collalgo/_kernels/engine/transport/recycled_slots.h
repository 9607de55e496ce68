/* Recycled slots, which pass back and forth between two ranks: the reader of a message owns its
 * slot from then on, and may write its own next message there.
 *
 * On Intel a core that reads lines just after another core has written them gets them in
 * exclusive state. So it writes them as fast as its own memory, while the lines of a ring are
 * still in the cache of their reader and must be taken back: two ranks took exchanges of
 * messages of 2 to 16 KiB and of 128 and 256 KiB 0.76 to 0.88 times as long. While both ranks
 * send equally often, each owns a slot to write to; a rank without a slot uses its rings. */
#ifndef COLLALGO_RECYCLED_SLOTS_H
#define COLLALGO_RECYCLED_SLOTS_H

#include "rings.h"
#include "staged_copy.h"

/* A message about as long as the first cache is read more slowly from the first cache of another
 * core than from its second, where a ring lets it sink to. */
#define FIRST_CACHE_FROM 32769
#define FIRST_CACHE_TO 90112

static inline int is_recycled_slot(int64_t place) {
    return place == OWN_SLOT || place == PEER_SLOT;
}

/* The address of a place of a sender, for a message of `nbytes` bytes. */
static inline char *staged_at(endpoint *e, int64_t sender, int64_t place, int64_t nbytes) {
    int is_short = is_recycled_slot(place) && nbytes < FIRST_CACHE_TO; /* and needs few pages */
    if (place == PEER_SLOT) sender = 1 - sender;
    if (is_recycled_slot(place)) place = recycled_offset(2);
    if (!is_short) populate(e, sender, place, nbytes);
    return region(e, sender) + place;
}

/* A recycled slot of this rank for a message, or 0. */
static inline int64_t take_recycled_slot(endpoint *e, int64_t readers, int64_t nbytes) {
    if (!e->recycled_count || readers > 1 || nbytes > RECYCLED_BYTES) return 0;
    if (e->staging.line_ticks >= FAR) return 0;
    if (nbytes >= FIRST_CACHE_FROM && nbytes < FIRST_CACHE_TO) return 0;
    return e->recycled[--e->recycled_count];
}

/* Own the place of a message that this rank has read, if that is a recycled slot. */
static inline void keep_recycled_slot(endpoint *e, int64_t place) {
    if (is_recycled_slot(place))
        e->recycled[e->recycled_count++] = place == OWN_SLOT ? PEER_SLOT : OWN_SLOT;
}

#endif
