/* Messages between the ranks of one host, through the memory of segment.h.
 *
 * Data is pulled: a line of a mailbox either carries it or says where in the sender's
 * window it lies until the ack. The window has two halves, used by steps in turn, so
 * that a rank may be one step ahead of its readers. Each post of a step has its own
 * share of the half: readers of one post can never be starved by those of another. */
#ifndef COLLALGO_SHARED_MEMORY_H
#define COLLALGO_SHARED_MEMORY_H

#include "copy.h"
#include "endpoint.h"

#define NAP_NANOSECONDS 10000000 /* nobody rings for a death or a timeout */

/* ---- sending */

static int acked(endpoint *e, int64_t channel, uint64_t number) {
    channel_state *c = e->channels + channel;
    if (c->acked >= number) return 1;
    c->acked = LOAD(&ack(e, channel % e->size, channel / e->size, e->rank)->count);
    return c->acked >= number;
}

static void endpoint_begin_step(endpoint *e, int64_t posts) {
    for (int64_t p = 0; p < posts; p++) {
        e->posts[p].slots = e->posts[p].pushes = 0;
        e->posts[p].before = NULL;
    }
    e->half ^= 1;
    e->half_ready = 0;
    e->share = posts ? HALF_BYTES / posts / CACHE_LINE * CACHE_LINE : 0;
    e->before_free = e->before;
}

/* The readers of the step before last must have done with this half. */
static int half_is_free(endpoint *e) {
    int64_t *awaiting = &e->awaiting[e->half];
    while (!e->half_ready && *awaiting) {
        awaited_ack *a = &e->awaited[e->half][*awaiting - 1];
        if (!acked(e, a->channel, a->number)) return 0;
        --*awaiting;
    }
    return e->half_ready = 1;
}

static void open_share(endpoint *e, post_state *post, int64_t readers) {
    int64_t slot = e->share / 4 / CACHE_LINE * CACHE_LINE;
    post->slot_bytes = slot > SEGMENT_BYTES ? SEGMENT_BYTES : slot ? slot : CACHE_LINE;
    post->slots = e->share / post->slot_bytes;
    if (post->slots > LINES) post->slots = LINES;
    post->offset = e->half * HALF_BYTES + (post - e->posts) * e->share;
    post->slot = 0;
    memset(post->used, 0, sizeof(post->used));
    post->awaited = e->awaiting[e->half];
    e->awaiting[e->half] += readers;
}

static int slot_is_free(endpoint *e, const post_state *post, const int64_t *channels,
                        int64_t readers) {
    int64_t used = post->used[post->slot];
    for (int64_t i = 0; used && i < readers; i++)
        if (!acked(e, channels[i], post->before[i] + used)) return 0;
    return 1;
}

/* Copy a segment into the window; its offset there, or -2 if there is no room. */
static int64_t stage(endpoint *e, post_state *post, const int64_t *channels,
                     int64_t readers, const char *data, int64_t *nbytes) {
    if (!half_is_free(e)) return -2;
    if (!post->slots) open_share(e, post, readers);
    if (!slot_is_free(e, post, channels, readers)) return -2;
    int64_t offset = post->offset + post->slot * post->slot_bytes;
    if (*nbytes > post->slot_bytes) *nbytes = post->slot_bytes;
    copy_bytes(region(e, e->rank) + window_offset(e->size) + offset, data, *nbytes);
    post->used[post->slot] = post->pushes + 1;
    post->slot = (post->slot + 1) % post->slots;
    for (int64_t i = 0; i < readers; i++)
        e->awaited[e->half][post->awaited + i] =
            (awaited_ack){channels[i], e->channels[channels[i]].sent + 1};
    return offset;
}

/* Send the beginning of `data` to all readers: how many bytes, or -1 if not now. */
static int64_t endpoint_push(endpoint *e, int64_t index, const int64_t *channels,
                             int64_t readers, const char *data, int64_t nbytes) {
    post_state *post = e->posts + index;
    int64_t offset = INLINE_DATA;
    for (int64_t i = 0; i < readers; i++)
        if (e->channels[channels[i]].sent >= LINES &&
            !acked(e, channels[i], e->channels[channels[i]].sent + 1 - LINES))
            return -1;
    if (!post->before) {
        post->before = e->before_free;
        e->before_free += readers;
        for (int64_t i = 0; i < readers; i++)
            post->before[i] = e->channels[channels[i]].sent;
    }
    if (nbytes > INLINE_BYTES) {
        offset = stage(e, post, channels, readers, data, &nbytes);
        if (offset < 0) return -1;
    }
    for (int64_t i = 0; i < readers; i++) {
        channel_state *c = e->channels + channels[i];
        mail_line *l = line(e, e->rank, channels[i] / e->size, channels[i] % e->size,
                            c->sent);
        l->fingerprint = e->fingerprint;
        l->sequence = e->sequence;
        l->offset = offset;
        l->nbytes = nbytes;
        if (offset == INLINE_DATA) memcpy(l->data, data, nbytes);
        STORE(&l->number, ++c->sent);
    }
    post->pushes++;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < readers; i++) {
        rank_header *reader = header(e, channels[i] % e->size);
        if (LOAD(&reader->asleep)) ring(reader);
    }
    return nbytes;
}

/* ---- receiving */

/* The next segment on a channel, or NULL if it has not come. */
static const char *endpoint_peek(endpoint *e, int64_t channel, int64_t *nbytes) {
    int64_t lane = channel / e->size, sender = channel % e->size;
    uint64_t consumed = e->channels[channel].consumed;
    mail_line *l = line(e, sender, lane, e->rank, consumed);
    if (LOAD(&l->number) != consumed + 1) return NULL;
    if (l->fingerprint != e->fingerprint) {
        /* The calls part where the line comes from, or where I am if that is earlier. */
        int64_t parted = l->sequence < e->sequence ? l->sequence : e->sequence;
        fail(e, FAILURE_MISMATCH, sender, parted);
        return NULL;
    }
    *nbytes = l->nbytes;
    if (l->offset == INLINE_DATA) return l->data;
    return region(e, sender) + window_offset(e->size) + l->offset;
}

static void endpoint_release(endpoint *e, int64_t channel) {
    int64_t lane = channel / e->size, sender = channel % e->size;
    STORE(&ack(e, e->rank, lane, sender)->count, ++e->channels[channel].consumed);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (LOAD(&header(e, sender)->asleep)) ring(header(e, sender));
}

/* ---- waiting: spin, then yield, then sleep until somebody rings */

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void arm(endpoint *e) {
    __atomic_store_n(&e->me->asleep, 1, __ATOMIC_SEQ_CST);
    e->bell_seen = LOAD(&e->me->bell);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* To be called when nothing could be done; the caller tries again in between. */
static int endpoint_pause(endpoint *e, int64_t *idle) {
    int64_t turn = (*idle)++;
    if (turn < e->spins) {
        relax();
        return GO_ON;
    }
    if (turn < e->spins + e->yields) {
        sched_yield();
        return failure_kind(e) ? STOP : GO_ON;
    }
    if (turn == e->spins + e->yields) {
        arm(e);
        return GO_ON;
    }
    struct timespec nap = {0, NAP_NANOSECONDS};
    syscall(SYS_futex, &e->me->bell, FUTEX_WAIT, e->bell_seen, &nap, NULL, 0);
    STORE(&e->me->asleep, 0);
    *idle = e->spins + e->yields; /* from now on, sleep first */
    return check(e);
}

/* To be called when the wait is over. */
static void endpoint_resume(endpoint *e, int64_t idle) {
    if (idle > e->spins + e->yields) STORE(&e->me->asleep, 0);
}

#endif
