/* Places that go back and forth between two ranks: who has read what one carries has it from then
 * on, and may write a message there.
 *
 * On Intel the lines that a rank reads just after another has written them come with the right
 * to write them. So it writes there as fast as in its own memory, where lines of a ring, which
 * their reader has, must be taken from it again: two ranks took exchanges of messages of 2 to
 * 16 KiB and of 128 and 256 KiB 0.76 to 0.88 times as long. As long as both send as often,
 * each has a carrier to write to; who has none uses its rings. */
#ifndef COLLALGO_CARRIERS_H
#define COLLALGO_CARRIERS_H

#include "rings.h"
#include "staging.h"

/* What is about as long as the first cache is read more slowly out of that of another core
 * than out of its second, where a ring lets it go to. */
#define FIRST_CACHE_FROM 32769
#define FIRST_CACHE_TO 90112

static int is_carrier(int64_t place) { return place == MY_CARRIER || place == YOUR_CARRIER; }

/* Where a place of a sender is, at which so many bytes are to be written or read. */
static char *staged_at(endpoint *e, int64_t sender, int64_t place, int64_t nbytes) {
    int is_short = is_carrier(place) && nbytes < FIRST_CACHE_TO; /* and needs few pages */
    if (place == YOUR_CARRIER) sender = 1 - sender;
    if (is_carrier(place)) place = carrier_offset(2);
    if (!is_short) populate(e, sender, place, nbytes);
    return region(e, sender) + place;
}

/* A carrier to which I may write a message, or 0. */
static int64_t take_carrier(endpoint *e, int64_t readers, int64_t nbytes) {
    if (!e->held || readers > 1 || nbytes > CARRIER_BYTES || e->line_ticks >= FAR) return 0;
    if (nbytes >= FIRST_CACHE_FROM && nbytes < FIRST_CACHE_TO) return 0;
    return e->carriers[--e->held];
}

/* I have read what lies at a place of its sender: if that is a carrier, it is mine now. */
static void keep_carrier(endpoint *e, int64_t place) {
    if (is_carrier(place))
        e->carriers[e->held++] = place == MY_CARRIER ? YOUR_CARRIER : MY_CARRIER;
}

#endif
