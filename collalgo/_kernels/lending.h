/* Messages that are not staged: their readers read them where they are, or have offered that
 * they are written where they belong. Both need arrays in a heap, which all have mapped. */
#ifndef COLLALGO_LENDING_H
#define COLLALGO_LENDING_H

#include "shared_memory.h"

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

/* Let the readers of a post read the next bytes of its message where they are: in my heap,
 * or if they are to `fetch` them, anywhere. They must not change while they are lent. */
static int endpoint_lend(endpoint *e, int64_t index, const int64_t *channels,
                         int64_t readers, const char *data, int64_t nbytes, int fetch) {
    post_state *post = e->posts + index;
    int mapped = is_mapped(e, data, nbytes);
    if (!mapped && !fetch) return 0;
    if (post->slots || nbytes > UINT32_MAX || readers > LENDS) return 0;
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

/* Whether a reader has offered that I write a message of so many bytes, by its number on the
 * channel. If it did so the last time, I wait until it has come to the call. */
static int is_wanted(endpoint *e, channel_state *c, int64_t number, int64_t nbytes) {
    const offer_line *o = c->offer;
    if (LOAD(&o->fingerprint) == e->fingerprint)
        return o->number == number && o->nbytes == nbytes ? WRITTEN : NOT_WANTED;
    if (c->nbytes != nbytes || c->number != number || !c->hopes) return NOT_WANTED;
    if (!e->usual.spins) return NOT_WANTED; /* to wait would be another's turn */
    if (LOAD(&c->peer->entered) >= (uint64_t)e->sequence) c->hopes--;
    return WANTED_LATER;
}

/* Write a part of a message where it belongs and tell the readers, if all have offered: as
 * what is staged, which may be in the caches of others, or past all caches. Where ranks share
 * cores only what is in mine: readers may as well do with the rest what I would. */
static int endpoint_put(endpoint *e, int64_t index, const int64_t *channels,
                        const int64_t *numbers, int64_t readers,
                        const message_part *part, int past_caches) {
    post_state *post = e->posts + index;
    int found = WRITTEN;
    if (post->slots || part->nbytes > UINT32_MAX || failure_kind(e)) return NOT_WANTED;
    if (!e->usual.spins && !part->is_result) return NOT_WANTED;
    for (int64_t i = 0; i < readers && found; i++) {
        channel_state *c = e->channels + channels[i];
        int wanted = is_wanted(e, c, numbers[i], part->whole);
        if (wanted < found) found = wanted;
    }
    if (found != WRITTEN) return found;
    if (!begin_lines(e, post, channels, readers)) return WANTED_LATER;
    for (int64_t i = 0; i < readers; i++) {
        channel_state *c = e->channels + channels[i];
        char *target = region(e, channels[i] % e->size) + c->offer->place + part->done;
        if (past_caches) stream_bytes(target, part->data, part->nbytes);
        else stage(e, target, part->data, part->nbytes);
        c->number = numbers[i], c->nbytes = part->whole, c->hopes = HOPES;
    }
    post->place = PUT, post->left = part->nbytes;
    endpoint_commit(e, index, channels, readers, part->nbytes);
    return WRITTEN;
}

#endif
