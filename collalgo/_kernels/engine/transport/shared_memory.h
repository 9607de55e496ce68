/* Messages between the ranks of one host, through the memory of segment.h.
 *
 * Data is pulled: a line of a mailbox either carries it or says where in the sender's
 * memory it lies until the ack. A post of a step takes one run of a ring: for all that it
 * sends or, if that is more than its share, for a few slots that it uses in turn. No post
 * waits for the readers of another of its step, only for those of earlier steps. Of two ranks
 * each may have a place that the other has written to and it has read; see carriers.h. */
#ifndef COLLALGO_SHARED_MEMORY_H
#define COLLALGO_SHARED_MEMORY_H

#include <errno.h>
#include <sys/uio.h>

#include "carriers.h"
#include "failures.h"

/* ---- sending */

static void endpoint_begin_step(endpoint *e, int64_t posts, int brief) {
    for (int64_t p = 0; p < posts; p++) {
        e->posts[p].slots = e->posts[p].messages = 0;
        e->posts[p].before = NULL;
    }
    e->posts_of_step = posts, e->brief = brief;
    e->before_free = e->before;
}

/* Whether a post belongs into the small ring, which must hold those of two steps. */
static int is_small(const endpoint *e, int64_t nbytes) {
    return e->brief && nbytes <= e->small_bytes &&
           nbytes * e->posts_of_step * 2 <= e->small.bytes;
}

/* Let what is left of a post go by a carrier, if there is one for it. */
static int open_carrier(endpoint *e, post_state *post, int64_t readers) {
    int64_t carrier = take_carrier(e, readers, post->left);
    if (!carrier) return 0;
    post->offset = carrier;
    post->slots = 1, post->slot_bytes = post->left, post->slot = 0;
    post->used[0] = 0;
    return 1;
}

static int open_post(endpoint *e, post_state *post, const int64_t *channels,
                     int64_t readers) {
    if (open_carrier(e, post, readers)) return 1;
    int64_t nbytes = round_up(post->left, CACHE_LINE), slots = 1;
    ring *r = &e->small;
    if (!is_small(e, nbytes)) {
        int64_t unit = SLOTS * CACHE_LINE;
        r = readers > 1 ? e->several : &e->large;
        int64_t share = r->bytes / 2 / e->posts_of_step / unit * unit;
        if (nbytes > share) nbytes = share, slots = SLOTS;
    }
    int64_t first_hold = r->last, offset = ring_take(e, r, nbytes, channels, readers);
    if (offset < 0) return 0;
    post->ring = r, post->offset = offset, post->first_hold = first_hold;
    post->slots = slots, post->slot_bytes = nbytes / slots, post->slot = 0;
    memset(post->used, 0, sizeof(post->used));
    return 1;
}

static int slot_is_free(endpoint *e, const post_state *post, const int64_t *channels,
                        int64_t readers) {
    int64_t used = post->used[post->slot];
    for (int64_t i = 0; used && i < readers; i++)
        if (!acked(e, channels[i], post->before[i] + used)) return 0;
    return 1;
}

/* Whether one more line can be sent to all readers of a post. */
static int lines_are_free(endpoint *e, const int64_t *channels, int64_t readers) {
    for (int64_t i = 0; i < readers; i++) {
        uint64_t sent = e->channels[channels[i]].sent;
        if (sent >= LINES && !acked(e, channels[i], sent + 1 - LINES)) return 0;
    }
    return 1;
}

/* The same, and remember how many had been sent before. */
static int begin_lines(endpoint *e, post_state *post, const int64_t *channels,
                       int64_t readers) {
    if (!lines_are_free(e, channels, readers)) return 0;
    if (!post->before) {
        post->before = e->before_free;
        e->before_free += readers;
        for (int64_t i = 0; i < readers; i++)
            post->before[i] = e->channels[channels[i]].sent;
    }
    return 1;
}

/* Where the next message of a post, of which `left` bytes are left, is to be written, and
 * how much of it; NULL if not now. */
static char *endpoint_reserve(endpoint *e, int64_t index, const int64_t *channels,
                              int64_t readers, int64_t left, int64_t *room) {
    post_state *post = e->posts + index;
    if (!begin_lines(e, post, channels, readers)) return NULL;
    post->left = *room = left;
    post->place = INLINE_DATA;
    if (left <= INLINE_BYTES) return e->inline_data;
    if (!post->slots && !open_post(e, post, channels, readers)) return NULL;
    if (!slot_is_free(e, post, channels, readers)) return NULL;
    if (*room > post->slot_bytes) *room = post->slot_bytes;
    post->place = post->offset + post->slot * post->slot_bytes;
    return staged_at(e, e->rank, post->place, *room);
}

/* Hand a line that I have written to the cache that all cores share, where its reader finds
 * it sooner than in mine: small messages of 8 and 16 ranks took 5 to 15 % less. */
static void hand_over(const mail_line *l, int64_t nbytes) {
#if defined(__x86_64__)
    const char *end = l->data + nbytes;
    for (const char *line = (const char *)l; line < end; line += CACHE_LINE)
        __asm__ volatile(".byte 0x0f, 0x1c, 0x00" : : "a"(line) : "memory"); /* cldemote */
#endif
}

/* Wake a rank if it sleeps; one ring is enough, however late it gets a core. */
static void rouse(rank_header *peer) {
    if (LOAD(&peer->asleep) && __atomic_exchange_n(&peer->asleep, 0, __ATOMIC_SEQ_CST))
        ring_bell(peer);
}

static inline void wake(endpoint *e, const int64_t *channels, int64_t readers) {
    if (e->fences) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else __atomic_signal_fence(__ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < readers; i++) rouse(e->channels[channels[i]].peer);
}

/* Send a line that carries `data` or, unless its place is INLINE_DATA, says where it is:
 * the number of the line. */
static uint64_t send_line(endpoint *e, channel_state *c, int64_t place, const char *data,
                          int64_t nbytes) {
    mail_line *l = c->out + c->sent % LINES;
    l->ack = c->consumed;
    l->fingerprint = e->fingerprint;
    l->offset = place;
    l->nbytes = (uint32_t)nbytes;
    l->sequence = (uint32_t)e->sequence;
    if (place == INLINE_DATA) memcpy(l->data, data, nbytes);
    STORE(&l->number, ++c->sent);
    if (hands_over && e->usual.spins) hand_over(l, place == INLINE_DATA ? nbytes : 0);
    own((const char *)(c->out + c->sent % LINES), sizeof(mail_line)); /* to be written next */
    return c->sent;
}

/* Send a whole message, if that can be now and takes one line or the small ring. */
static int endpoint_post(endpoint *e, const int64_t *channels, int64_t readers,
                         const char *data, int64_t nbytes) {
    int64_t place = INLINE_DATA, first_hold = e->small.last;
    if (!lines_are_free(e, channels, readers)) return 0;
    if (nbytes > INLINE_BYTES) {
        int64_t taken = round_up(nbytes, CACHE_LINE);
        if (!is_small(e, taken)) return 0;
        place = take_carrier(e, readers, nbytes);
        if (!place) place = ring_take(e, &e->small, taken, channels, readers);
        if (place < 0 && !is_carrier(place)) return 0;
        stage(e, staged_at(e, e->rank, place, nbytes), data, nbytes);
    }
    for (int64_t i = 0; i < readers; i++) {
        uint64_t sent = send_line(e, e->channels + channels[i], place, data, nbytes);
        if (place >= 0) hold_at(&e->small, first_hold + i)->number = sent;
    }
    wake(e, channels, readers);
    return 1;
}

/* Send what was written where `endpoint_reserve` said. */
static void endpoint_commit(endpoint *e, int64_t index, const int64_t *channels,
                            int64_t readers, int64_t nbytes) {
    post_state *post = e->posts + index;
    post->messages++;
    if (is_carrier(post->place)) post->slots = 0; /* it is its reader's now */
    for (int64_t i = 0; i < readers; i++) {
        uint64_t sent = send_line(e, e->channels + channels[i], post->place,
                                  e->inline_data, nbytes);
        if (post->slots && nbytes == post->left)
            hold_at(post->ring, post->first_hold + i)->number = sent;
    }
    if (post->slots) {
        post->used[post->slot] = post->messages;
        post->slot = (post->slot + 1) % post->slots;
    }
    wake(e, channels, readers);
}

/* ---- receiving */

/* The next segment on a channel, or NULL if it has not come. */
static const char *peek_at(endpoint *e, int64_t channel, segment_state *segment) {
    channel_state *c = e->channels + channel;
    mail_line *l = c->in + c->consumed % LINES;
    if (LOAD(&l->number) != c->consumed + 1) {
        e->missing |= c->bit;
        return NULL;
    }
    e->missing &= ~c->bit;
    if (l->ack > c->acked) c->acked = l->ack; /* as if it had been read from the ack */
    if (l->fingerprint != e->fingerprint) {
        /* The calls part where the line comes from, or where I am if that is earlier. */
        int32_t ahead = (int32_t)(l->sequence - (uint32_t)e->sequence);
        fail_mismatch(e, channel % e->size, e->sequence + (ahead < 0 ? ahead : 0));
        return NULL;
    }
    segment->left = l->nbytes;
    segment->whereabouts =
        l->offset == PUT ? DELIVERED : l->offset < YOUR_CARRIER ? REMOTE : NEAR;
    if (l->offset == INLINE_DATA || l->offset == PUT) return l->data;
    if (segment->whereabouts == REMOTE) return (const char *)(uintptr_t)-l->offset;
    return staged_at(e, channel % e->size, l->offset, l->nbytes);
}

/* Look for the next segments on channels, where there is no data yet: whether all are
 * there. */
static int endpoint_peek(endpoint *e, const int64_t *channels, int64_t senders,
                         segment_state *segments) {
    int all_here = 1;
    for (int64_t i = 0; i < senders; i++)
        if (!segments[i].data) {
            segments[i].data = peek_at(e, channels[i], segments + i);
            if (!segments[i].data) all_here = 0;
        }
    return all_here;
}

/* Copy from the memory of the sender's process; it has failed if that is gone. */
static int endpoint_fetch(endpoint *e, int64_t channel, char *target, const char *data,
                          int64_t nbytes) {
    int64_t sender = channel % e->size;
    while (nbytes > 0) {
        struct iovec here = {target, (size_t)nbytes}, there = {(void *)data, (size_t)nbytes};
        ssize_t got = process_vm_readv(header(e, sender)->process, &here, 1, &there, 1, 0);
        if (got <= 0) return fail(e, FAILURE_PEER, sender, e->sequence);
        target += got, data += got, nbytes -= got;
    }
    return GO_ON;
}

/* Whether I may read the memory of a process: then reading nothing is what fails. */
static int may_fetch(pid_t process) {
    char byte;
    struct iovec here = {&byte, 1}, there = {NULL, 1};
    return process_vm_readv(process, &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

static void endpoint_release(endpoint *e, const int64_t *channels, int64_t senders) {
    for (int64_t i = 0; i < senders; i++) {
        channel_state *c = e->channels + channels[i];
        keep_carrier(e, (c->in + c->consumed % LINES)->offset);
        STORE(&c->given->count, ++c->consumed);
    }
    wake(e, channels, senders);
}

#endif
