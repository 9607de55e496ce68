/* Messages that are not staged: their readers read them where they are, or have offered that
 * they are written where they belong. Both need arrays in a heap, which all have mapped. */
#ifndef COLLALGO_LENDING_H
#define COLLALGO_LENDING_H

#include "shared_memory.h"

/* Where ranks share cores, who has nothing else to do in a call waits longer for the turns of
 * those who read what is shorter than to copy it. */
#define TURN_BYTES 524288

#define HOPES 64 /* looks for an offer of who has come to the call: some microseconds */

/* Whether a reader has not yet read all that was lent to it. */
static int endpoint_is_lent(endpoint *e) {
    while (e->lends_out) {
        lend *last = e->lends + e->lends_out - 1;
        if (!acked(e, last->channel, last->number)) return 1;
        e->lends_out--;
    }
    return 0;
}

/* Whether some of my memory is in my heap. */
static int is_mapped(const endpoint *e, const char *data, int64_t nbytes) {
    return data >= e->heap && data + nbytes <= e->heap + e->heap_bytes;
}

/* Whether the caches of others are far from mine. Only what is staged tells, so now and then
 * something had better be. */
static int seem_far(endpoint *e) {
    return e->line_ticks >= FAR || ++e->unstaged % LOOK_EACH == 0;
}

/* Whether others had better read something where it is. */
static int pays(endpoint *e, int shared) {
    switch (shared) {
    case SHARED_IF_NEAR: return !seem_far(e);
    case SHARED_UNLESS_FAR: return e->line_ticks < FAR;
    default: return shared == SHARED;
    }
}

/* Let the readers of a post read the next bytes of its message where they are: in my heap if
 * they are to `share` it, or if they are to `fetch` them, anywhere. They must not change while
 * they are lent, which I have to wait for if this is the `last` that I do in a call. */
static int endpoint_lend(endpoint *e, int64_t index, const int64_t *channels,
                         int64_t readers, const char *data, int64_t nbytes, int share,
                         int fetch, int last) {
    post_state *post = e->posts + index;
    int mapped = is_mapped(e, data, nbytes) && pays(e, share);
    if (!mapped && !pays(e, fetch)) return 0;
    if (post->slots || nbytes > UINT32_MAX || readers > LENDS) return 0;
    if (last && !e->usual.spins && nbytes < TURN_BYTES) return 0;
    for (int64_t i = 0; i < readers; i++) {
        rank_header *reader = e->channels[channels[i]].peer;
        if (mapped ? reader->reach != e->heap_bytes : !LOAD(&reader->fetches)) return 0;
    }
    if (e->lends_out + readers > LENDS && endpoint_is_lent(e)) return 0;
    if (!begin_lines(e, post, channels, readers)) return 0;
    post->place = mapped ? data - region(e, e->rank) : -(int64_t)(uintptr_t)data;
    post->left = nbytes;
    endpoint_commit(e, index, channels, readers, nbytes);
    for (int64_t i = 0; i < readers; i++)
        e->lends[e->lends_out++] =
            (lend){channels[i], e->channels[channels[i]].sent};
    return 1;
}

/* Let a sender write where a message belongs that is the one of this number on its channel
 * in this call: now, and until it has sent the message. */
static void endpoint_offer(endpoint *e, int64_t channel, int64_t number,
                           const char *target, int64_t nbytes) {
    channel_state *c = e->channels + channel;
    if (!is_mapped(e, target, nbytes) || c->peer->reach != e->heap_bytes) return;
    c->offered->place = target - region(e, e->rank);
    c->offered->number = number, c->offered->nbytes = nbytes;
    STORE(&c->offered->fingerprint, e->fingerprint);
}

/* Whether a reader has offered anything in this call. */
static int has_offered(const endpoint *e, const channel_state *c) {
    return LOAD(&c->offer->fingerprint) == e->fingerprint;
}

/* Whether it has offered that I write a message of so many bytes, by its number on the
 * channel. */
static int is_offered(const channel_state *c, int64_t number, int64_t nbytes) {
    return c->offer->number == number && c->offer->nbytes == nbytes;
}

/* Whether a reader wants me to write a message where it has offered that. If it did so the
 * last time, I wait until it has come to the call. */
static int is_wanted(endpoint *e, channel_state *c, int64_t number, int64_t nbytes) {
    if (has_offered(e, c)) return is_offered(c, number, nbytes) ? WRITTEN : NOT_WANTED;
    if (c->nbytes != nbytes || c->number != number || !c->hopes) return NOT_WANTED;
    if (!e->usual.spins) return NOT_WANTED; /* to wait would be another's turn */
    if (LOAD(&c->peer->entered) >= (uint64_t)e->sequence) c->hopes--;
    return WANTED_LATER;
}

/* Where a part of a message belongs that a reader has offered. */
static char *place_of(const endpoint *e, int64_t channel, const message_part *part) {
    return region(e, channel % e->size) + e->channels[channel].offer->place + part->done;
}

/* Where a part of a message belongs, for each of its readers, if all have offered that it is
 * written there. Not if they are far, nor now and then: then `stage` finds out how far. */
static int endpoint_aim(endpoint *e, const message_part *part, char **targets) {
    if (has_failed(e, e->sequence)) return 0;
    if (!part->past_caches && seem_far(e)) return 0;
    for (int64_t i = 0; i < part->readers; i++) {
        const channel_state *c = e->channels + part->channels[i];
        if (!has_offered(e, c) || !is_offered(c, part->numbers[i], part->whole)) return 0;
        targets[i] = place_of(e, part->channels[i], part);
    }
    return 1;
}

/* Write a part of a message where it belongs, unless it has been, and tell the readers, if
 * all have offered: as what is staged, which may be in the caches of others, or past all
 * caches. Where ranks share cores only what is in mine: readers may as well do with the rest
 * what I would. */
static int endpoint_put(endpoint *e, int64_t index, const message_part *part) {
    post_state *post = e->posts + index;
    int found = WRITTEN;
    if (post->slots || part->nbytes > UINT32_MAX) return NOT_WANTED;
    if (has_failed(e, e->sequence)) return NOT_WANTED;
    if (!e->usual.spins && !part->is_result) return NOT_WANTED;
    for (int64_t i = 0; i < part->readers && found; i++) {
        channel_state *c = e->channels + part->channels[i];
        int wanted = is_wanted(e, c, part->numbers[i], part->whole);
        if (wanted < found) found = wanted;
    }
    if (found != WRITTEN) return found;
    if (!begin_lines(e, post, part->channels, part->readers)) return WANTED_LATER;
    for (int64_t i = 0; i < part->readers; i++) {
        channel_state *c = e->channels + part->channels[i];
        char *target = place_of(e, part->channels[i], part);
        if (!part->is_written) {
            if (part->past_caches) stream_bytes(target, part->data, part->nbytes);
            else stage(e, target, part->data, part->nbytes);
        }
        c->number = part->numbers[i], c->nbytes = part->whole, c->hopes = HOPES;
    }
    post->place = PUT, post->left = part->nbytes;
    endpoint_commit(e, index, part->channels, part->readers, part->nbytes);
    return WRITTEN;
}

#endif
