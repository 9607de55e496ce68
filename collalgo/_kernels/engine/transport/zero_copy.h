/* Zero-copy messages: the readers read the memory of the sender, or the sender writes to memory
 * that the readers have offered. Both need arrays in a heap, which all ranks have mapped. */
#ifndef COLLALGO_ZERO_COPY_H
#define COLLALGO_ZERO_COPY_H

#include "shared_memory.h"

/* Where ranks share cores, the last message of a call that is shorter is copied: the wait for
 * the turns of its readers would take longer than the copy. */
#define TURN_BYTES 524288

#define OFFER_POLLS 64 /* for the offer of a rank that has entered the call: microseconds */

/* Whether a zero-copy message is still unread. */
static inline int endpoint_has_readers(endpoint *e) {
    while (e->direct_count) {
        direct_send *last = e->direct_sends + e->direct_count - 1;
        if (!acked(e, last->channel, last->number)) return 1;
        e->direct_count--;
    }
    return 0;
}

/* Whether memory lies in the heap of this rank. */
static inline int is_mapped(const endpoint *e, const char *data, int64_t nbytes) {
    return data >= e->heap && data + nbytes <= e->heap + e->heap_bytes;
}

/* Whether the caches of the peers are far. Only staged copies measure it, so one part in
 * MEASURE_EVERY is staged. */
static inline int caches_seem_far(endpoint *e) {
    return e->staging.line_ticks >= FAR || ++e->direct_parts % MEASURE_EVERY == 0;
}

/* Whether zero copy is faster than a copy under a policy. */
static inline int is_zero_copy_faster(endpoint *e, int policy) {
    switch (policy) {
    case SHARED_IF_NEAR: return !caches_seem_far(e);
    case SHARED_UNLESS_FAR: return e->staging.line_ticks < FAR;
    default: return policy == SHARED;
    }
}

/* Send the next bytes of a post without a copy: the readers read them in the heap of this rank
 * under the policy `share`, or in any memory of its process under the policy `fetch`. The bytes
 * must not change until they are read; if they are the `last` of a call, it waits for that. */
static inline int endpoint_send_direct(endpoint *e, int64_t index, const int64_t *channels,
                                       int64_t readers, const char *data, int64_t nbytes, int share,
                                       int fetch, int last) {
    post_state *post = e->posts + index;
    int mapped = is_mapped(e, data, nbytes) && is_zero_copy_faster(e, share);
    if (!mapped && !is_zero_copy_faster(e, fetch)) return 0;
    if (post->slots || nbytes > UINT32_MAX || readers > DIRECT_SENDS) return 0;
    if (last && !e->usual.spins && nbytes < TURN_BYTES) return 0;
    for (int64_t i = 0; i < readers; i++) {
        rank_header *reader = e->channels[channels[i]].peer;
        if (mapped ? reader->reach != e->heap_bytes : !LOAD(&reader->can_fetch)) return 0;
    }
    if (e->direct_count + readers > DIRECT_SENDS && endpoint_has_readers(e)) return 0;
    if (!begin_lines(e, post, channels, readers)) return 0;
    post->place = mapped ? data - region(e, e->rank) : -(int64_t)(uintptr_t)data;
    post->left = nbytes;
    endpoint_commit(e, index, channels, readers, nbytes);
    for (int64_t i = 0; i < readers; i++)
        e->direct_sends[e->direct_count++] =
            (direct_send){channels[i], e->channels[channels[i]].sent};
    return 1;
}

/* Offer a sender the destination of a message, by the number of the message on its channel in
 * this call. The offer stands until the message is sent. */
static inline void endpoint_offer(endpoint *e, int64_t channel, int64_t number,
                                  const char *target, int64_t nbytes) {
    channel_state *c = e->channels + channel;
    if (!is_mapped(e, target, nbytes) || c->peer->reach != e->heap_bytes) return;
    e->has_made_offers = 1;
    c->offered->place = target - region(e, e->rank);
    c->offered->number = number, c->offered->nbytes = nbytes;
    STORE(&c->offered->fingerprint, e->fingerprint);
}

/* Whether a reader has made an offer in this call. */
static inline int has_offered(const endpoint *e, const channel_state *c) {
    return LOAD(&c->offer->fingerprint) == e->fingerprint;
}

/* Whether the offer of a reader is for this message, by its number on the channel. */
static inline int is_offered(const channel_state *c, int64_t number, int64_t nbytes) {
    return c->offer->number == number && c->offer->nbytes == nbytes;
}

/* Whether a reader has offered the destination of a message. If it did so for the last one,
 * the offer is pending until the reader has entered the call. */
static inline int offer_state(endpoint *e, channel_state *c, int64_t number, int64_t nbytes) {
    if (has_offered(e, c)) return is_offered(c, number, nbytes) ? WRITTEN : NOT_OFFERED;
    if (c->nbytes != nbytes || c->number != number || !c->offer_polls) return NOT_OFFERED;
    if (!e->usual.spins) return NOT_OFFERED; /* a wait would take the turn of another */
    if (LOAD(&c->peer->entered) >= (uint64_t)e->sequence) c->offer_polls--;
    return OFFER_PENDING;
}

/* The offered destination of a part of a message. */
static inline char *place_of(const endpoint *e, int64_t channel, const message_part *part) {
    return region(e, channel % e->size) + e->channels[channel].offer->place + part->done;
}

/* Find the destination of a part of a message at each of its readers, if all have offered it.
 * Not if they are far, and not for one part in MEASURE_EVERY, which a staged copy measures. */
static inline int endpoint_locate(endpoint *e, const message_part *part, char **targets) {
    if (has_failed(e, e->sequence)) return 0;
    if (!part->past_caches && caches_seem_far(e)) return 0;
    for (int64_t i = 0; i < part->readers; i++) {
        const channel_state *c = e->channels + part->channels[i];
        if (!has_offered(e, c) || !is_offered(c, part->numbers[i], part->whole)) return 0;
        targets[i] = place_of(e, part->channels[i], part);
    }
    return 1;
}

/* The state of a part of a message: WRITTEN if all readers have offered its destination. */
static inline int offers_of(endpoint *e, const message_part *part) {
    int found = WRITTEN;
    for (int64_t i = 0; i < part->readers && found; i++) {
        channel_state *c = e->channels + part->channels[i];
        int state = offer_state(e, c, part->numbers[i], part->whole);
        if (state < found) found = state;
    }
    return found;
}

/* Write a part of a message to its destinations, if all readers have offered them and it is
 * not written yet, and announce it. It is written as a staged copy, or past all caches. Where
 * ranks share cores, only results are written, which are in the cache of this core: the
 * readers can copy the rest as fast. */
static inline int endpoint_put(endpoint *e, int64_t index, const message_part *part) {
    post_state *post = e->posts + index;
    if (post->slots || part->nbytes > UINT32_MAX) return NOT_OFFERED;
    if (has_failed(e, e->sequence)) return NOT_OFFERED;
    if (!e->usual.spins && !part->is_result) return NOT_OFFERED;
    int found = offers_of(e, part);
    if (found != WRITTEN) return found;
    if (!begin_lines(e, post, part->channels, part->readers)) return OFFER_PENDING;
    for (int64_t i = 0; i < part->readers; i++) {
        channel_state *c = e->channels + part->channels[i];
        char *target = place_of(e, part->channels[i], part);
        if (!part->is_written) {
            if (part->past_caches) stream_bytes(target, part->data, part->nbytes);
            else stage(&e->staging, target, part->data, part->nbytes);
        }
        c->number = part->numbers[i], c->nbytes = part->whole, c->offer_polls = OFFER_POLLS;
    }
    post->place = PUT, post->left = part->nbytes;
    endpoint_commit(e, index, part->channels, part->readers, part->nbytes);
    return WRITTEN;
}

#endif
