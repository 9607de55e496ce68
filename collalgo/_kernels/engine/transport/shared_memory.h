/* Messages between the ranks of one host, through the memory of segment.h.
 *
 * Data is pulled: a line of a mailbox either holds it or points to the sender's memory, where
 * it stays until the ack. A post of a step takes one run of a ring, for its whole message or,
 * if that exceeds its share, for a few slots that it uses in turn. No post waits for the
 * readers of another post of its step, only for those of earlier steps. Two ranks also pass
 * slots back and forth; see recycled_slots.h. */
#ifndef COLLALGO_SHARED_MEMORY_H
#define COLLALGO_SHARED_MEMORY_H

#include <errno.h>
#include <sys/uio.h>

#include "recycled_slots.h"
#include "failures.h"

/* ---- sending */

static inline void endpoint_begin_step(endpoint *e, int64_t posts, int brief) {
    for (int64_t p = 0; p < posts; p++) {
        e->posts[p].slots = e->posts[p].messages = 0;
        e->posts[p].before = NULL;
    }
    e->posts_of_step = posts, e->brief = brief;
    e->before_free = e->before;
}

/* Whether a post goes into the small ring, which must hold the posts of two steps. */
static inline int is_small(const endpoint *e, int64_t nbytes) {
    return e->brief && nbytes <= e->small_bytes &&
           nbytes * e->posts_of_step * 2 <= e->small.bytes;
}

/* Open a recycled slot for the rest of a post, if this rank owns one. */
static inline int open_recycled_slot(endpoint *e, post_state *post, int64_t readers) {
    int64_t slot = take_recycled_slot(e, readers, post->left);
    if (!slot) return 0;
    post->offset = slot;
    post->slots = 1, post->slot_bytes = post->left, post->slot = 0;
    post->used[0] = 0;
    return 1;
}

/* Allocate the memory of a post: a recycled slot, or a run of a ring. */
static inline int open_post(endpoint *e, post_state *post, const int64_t *channels,
                            int64_t readers) {
    if (open_recycled_slot(e, post, readers)) return 1;
    int64_t nbytes = round_up(post->left, CACHE_LINE), slots = 1;
    ring *r = &e->small;
    if (!is_small(e, nbytes)) {
        int64_t unit = SLOTS * CACHE_LINE;
        r = readers > 1 ? e->multi_reader : &e->large;
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

static inline int slot_is_free(endpoint *e, const post_state *post, const int64_t *channels,
                               int64_t readers) {
    int64_t used = post->used[post->slot];
    for (int64_t i = 0; used && i < readers; i++)
        if (!acked(e, channels[i], post->before[i] + used)) return 0;
    return 1;
}

/* Whether one more line can be sent to all readers of a post. */
static inline int lines_are_free(endpoint *e, const int64_t *channels, int64_t readers) {
    for (int64_t i = 0; i < readers; i++) {
        uint64_t sent = e->channels[channels[i]].sent;
        if (sent >= LINES && !acked(e, channels[i], sent + 1 - LINES)) return 0;
    }
    return 1;
}

/* The same, and keep the number of lines that were sent before. */
static inline int begin_lines(endpoint *e, post_state *post, const int64_t *channels,
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

/* The memory for the next segment of a post with `left` bytes left, and its length in `room`;
 * NULL without room now. */
static inline char *endpoint_reserve(endpoint *e, int64_t index, const int64_t *channels,
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

/* Whether a number of lines can be sent to a rank without a wait. */
static inline int endpoint_has_room(endpoint *e, int64_t rank, int64_t messages) {
    uint64_t last = e->channels[rank].sent + messages;
    return last <= LINES || acked(e, rank, last - LINES);
}

/* Demote a written line to the shared cache, where its reader finds it sooner than in the cache
 * of this core: small messages of 8 and 16 ranks took 5 to 15 % less. */
static inline void demote(const mail_line *l, int64_t nbytes) {
#if defined(__x86_64__)
    const char *end = l->data + nbytes;
    for (const char *line = (const char *)l; line < end; line += CACHE_LINE)
        __asm__ volatile(".byte 0x0f, 0x1c, 0x00" : : "a"(line) : "memory"); /* cldemote */
#endif
}

static inline void wake(endpoint *e, const int64_t *channels, int64_t readers) {
    if (e->fences) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else __atomic_signal_fence(__ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < readers; i++) wake_rank(e->channels[channels[i]].peer);
}

/* Send a line that holds `data` if its place is INLINE_DATA, or points to the place; return the
 * number of the line. */
static inline uint64_t send_line(endpoint *e, channel_state *c, int64_t place, const char *data,
                                 int64_t nbytes) {
    mail_line *l = c->out + c->sent % LINES;
    l->ack = c->consumed;
    l->fingerprint = e->fingerprint;
    l->offset = place;
    l->nbytes = (uint32_t)nbytes;
    l->sequence = (uint32_t)e->sequence;
    if (place == INLINE_DATA && nbytes) memcpy(l->data, data, nbytes); /* of 0 bytes it may be NULL */
    STORE(&l->number, ++c->sent);
    if (demotes_lines && e->usual.spins) demote(l, place == INLINE_DATA ? nbytes : 0);
    prefetch_to_write((const char *)(c->out + c->sent % LINES), sizeof(mail_line));
    return c->sent;
}

/* Send a whole message, if it fits into a line or the small ring and there is room now. */
static inline int endpoint_post(endpoint *e, const int64_t *channels, int64_t readers,
                                const char *data, int64_t nbytes) {
    int64_t place = INLINE_DATA, first_hold = e->small.last;
    if (!lines_are_free(e, channels, readers)) return 0;
    if (nbytes > INLINE_BYTES) {
        int64_t taken = round_up(nbytes, CACHE_LINE);
        if (!is_small(e, taken)) return 0;
        place = take_recycled_slot(e, readers, nbytes);
        if (!place) place = ring_take(e, &e->small, taken, channels, readers);
        if (place < 0 && !is_recycled_slot(place)) return 0;
        stage(&e->staging, staged_at(e, e->rank, place, nbytes), data, nbytes);
    }
    for (int64_t i = 0; i < readers; i++) {
        uint64_t sent = send_line(e, e->channels + channels[i], place, data, nbytes);
        if (place >= 0) hold_at(&e->small, first_hold + i)->number = sent;
    }
    wake(e, channels, readers);
    return 1;
}

/* Send the segment that was written to the memory of `endpoint_reserve`. */
static inline void endpoint_commit(endpoint *e, int64_t index, const int64_t *channels,
                                   int64_t readers, int64_t nbytes) {
    post_state *post = e->posts + index;
    post->messages++;
    if (is_recycled_slot(post->place)) post->slots = 0; /* the reader owns it now */
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

/* The next segment on a channel, or NULL if it has not arrived. */
static inline const char *peek_at(endpoint *e, int64_t channel, segment_state *segment) {
    channel_state *c = e->channels + channel;
    mail_line *l = c->in + c->consumed % LINES;
    if (LOAD(&l->number) != c->consumed + 1) {
        e->missing |= c->bit;
        return NULL;
    }
    e->missing &= ~c->bit;
    if (l->ack > c->acked) c->acked = l->ack; /* saves a read of the ack line */
    if (l->fingerprint != e->fingerprint) {
        /* The first call that differs is that of the line, or of this rank if earlier. */
        int32_t ahead = (int32_t)(l->sequence - (uint32_t)e->sequence);
        fail_mismatch(e, channel % e->size, e->sequence + (ahead < 0 ? ahead : 0));
        return NULL;
    }
    segment->left = l->nbytes;
    segment->location =
        l->offset == PUT ? DELIVERED : l->offset < PEER_SLOT ? REMOTE : NEAR;
    if (l->offset == INLINE_DATA || l->offset == PUT) return l->data;
    if (segment->location == REMOTE) return (const char *)(uintptr_t)-l->offset;
    return staged_at(e, channel % e->size, l->offset, l->nbytes);
}

/* Look for the next segment on each channel without data; return whether all have arrived. */
static inline int endpoint_peek(endpoint *e, const int64_t *channels, int64_t senders,
                                segment_state *segments) {
    int all_arrived = 1;
    for (int64_t i = 0; i < senders; i++)
        if (!segments[i].data) {
            segments[i].data = peek_at(e, channels[i], segments + i);
            if (!segments[i].data) all_arrived = 0;
        }
    return all_arrived;
}

/* Copy from the memory of another process: 0, or the error. */
static inline int fetch_from(pid_t process, char *target, const char *data, int64_t nbytes) {
    while (nbytes > 0) {
        struct iovec here = {target, (size_t)nbytes}, there = {(void *)data, (size_t)nbytes};
        ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
        if (got <= 0) return got ? errno : EFAULT;
        target += got, data += got, nbytes -= got;
    }
    return 0;
}

/* Copy from the memory of the sender's process. If that cannot be read, the call fails. */
static inline int endpoint_fetch(endpoint *e, int64_t channel, char *target, const char *data,
                                 int64_t nbytes) {
    int64_t sender = channel % e->size;
    int error = fetch_from(header(e, sender)->process, target, data, nbytes);
    if (!error) return GO_ON;
    return fail(e, error == ESRCH ? FAILURE_PEER : FAILURE_READ, sender, e->sequence);
}

/* Whether this process can read the memory of another: if so, a read at NULL gives EFAULT. */
static inline int can_read_memory(pid_t process) {
    char byte;
    struct iovec here = {&byte, 1}, there = {NULL, 1};
    return process_vm_readv(process, &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

/* Acknowledge the segments last peeked at. */
static inline void endpoint_release(endpoint *e, const int64_t *channels, int64_t senders) {
    for (int64_t i = 0; i < senders; i++) {
        channel_state *c = e->channels + channels[i];
        keep_recycled_slot(e, (c->in + c->consumed % LINES)->offset);
        STORE(&c->acks_out->count, ++c->consumed);
    }
    wake(e, channels, senders);
}

#endif
