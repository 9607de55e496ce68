/* Messages between the ranks of one host, through the memory of segment.h.
 *
 * Data is pulled: a line of a mailbox either carries it or says where in the sender's
 * window it lies until the ack. The window has two halves, used by steps in turn, so
 * that a rank may be one step ahead of its readers. Each post of a step has its own
 * share of the half: readers of one post can never be starved by those of another. */
#ifndef COLLALGO_SHARED_MEMORY_H
#define COLLALGO_SHARED_MEMORY_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "segment.h"

#define NAP_NANOSECONDS 10000000 /* nobody rings for a death or a timeout */
#define CHECK_SECONDS 0.02

/* One channel as its owner sees it. */
typedef struct {
    uint64_t sent, acked, consumed;
} channel_state;

/* One post of the current step: its share of the window, and after how many pushes
 * each of its slots was used last. */
typedef struct {
    int64_t offset, slot_bytes, slots, slot, pushes, awaited;
    int64_t used[LINES];
    uint64_t *before; /* for each reader, the lines sent to it before this post */
} post_state;

typedef struct {
    int64_t channel;
    uint64_t number;
} awaited_ack;

typedef struct {
    char *base;
    int64_t rank, size;
    rank_header *me;
    channel_state *channels; /* [lane][peer] */
    post_state *posts;
    uint64_t *before, *before_free;
    awaited_ack *awaited[2]; /* what each half waits for before it is used again */
    int64_t awaiting[2], half, half_ready, share;
    int64_t spins, yields;
    uint32_t bell_seen;
    int32_t generation;
    struct pollfd *processes; /* readable when the process of a rank has ended */
    int64_t sequence, fingerprint;
    double timeout, waiting_since, checked;
} endpoint;

static int32_t fork_generation;
static void count_fork(void) { fork_generation++; }

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)

/* ---- layout */

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static int64_t acks_offset(void) { return round_up(sizeof(rank_header), CACHE_LINE); }
static int64_t mail_offset(int64_t size) {
    return round_up(acks_offset() + LANES * size * (int64_t)sizeof(ack_line), 128);
}
static int64_t window_offset(int64_t size) {
    int64_t lines = LANES * size * LINES * (int64_t)sizeof(mail_line);
    return round_up(mail_offset(size) + lines, 4096);
}
static int64_t region_bytes(int64_t size) { return window_offset(size) + 2 * HALF_BYTES; }
static int64_t regions_offset(void) { return round_up(sizeof(world_header), 4096); }
static int64_t segment_bytes(int64_t size) {
    return regions_offset() + size * region_bytes(size);
}

static char *region(const endpoint *e, int64_t rank) {
    return e->base + regions_offset() + rank * region_bytes(e->size);
}
static world_header *world(const endpoint *e) { return (world_header *)e->base; }
static rank_header *header(const endpoint *e, int64_t rank) {
    return (rank_header *)region(e, rank);
}
static ack_line *ack(const endpoint *e, int64_t reader, int64_t lane, int64_t sender) {
    return (ack_line *)(region(e, reader) + acks_offset()) + lane * e->size + sender;
}
static mail_line *line(const endpoint *e, int64_t sender, int64_t lane, int64_t reader,
                       uint64_t number) {
    mail_line *lines = (mail_line *)(region(e, sender) + mail_offset(e->size));
    return lines + (lane * e->size + reader) * LINES + number % LINES;
}

/* ---- life of an endpoint */

static void endpoint_free(endpoint *e) {
    if (!e) return;
    free(e->channels), free(e->posts), free(e->before);
    free(e->awaited[0]), free(e->awaited[1]), free(e->processes), free(e);
}

static endpoint *endpoint_new(char *base, int64_t rank, int64_t size, int64_t spins,
                              int64_t yields) {
    endpoint *e = calloc(1, sizeof(endpoint));
    size_t channels = LANES * size;
    if (!e) return NULL;
    e->base = base, e->rank = rank, e->size = size, e->spins = spins, e->yields = yields;
    e->channels = calloc(channels, sizeof(channel_state));
    e->posts = calloc(channels, sizeof(post_state));
    e->before = calloc(channels, sizeof(uint64_t));
    e->awaited[0] = calloc(channels, sizeof(awaited_ack));
    e->awaited[1] = calloc(channels, sizeof(awaited_ack));
    e->processes = calloc(size, sizeof(struct pollfd));
    if (!e->channels || !e->posts || !e->before || !e->awaited[0] || !e->awaited[1] ||
        !e->processes) {
        endpoint_free(e);
        return NULL;
    }
    for (int64_t r = 0; r < size; r++) e->processes[r] = (struct pollfd){-1, POLLIN, 0};
    e->generation = fork_generation;
    e->me = header(e, rank);
    STORE(&e->me->status, RANK_ACTIVE);
    return e;
}

static void futex_wake(uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void ring(rank_header *peer) {
    __atomic_add_fetch(&peer->bell, 1, __ATOMIC_SEQ_CST);
    futex_wake(&peer->bell);
}

static void ring_all(const endpoint *e) {
    for (int64_t r = 0; r < e->size; r++) ring(header(e, r));
}

/* Tell the others that this rank will not take part any more, and why. */
static void endpoint_leave(endpoint *e, uint32_t status, const char *farewell) {
    if (LOAD(&e->me->status) != RANK_ACTIVE) return;
    strncpy(e->me->farewell, farewell, FAREWELL_BYTES - 1);
    STORE(&e->me->status, status);
    ring_all(e);
}

/* ---- failures: the first one is the world's, for every rank to report */

static int64_t failure_kind(const endpoint *e) { return LOAD(&world(e)->failure.kind); }

static int fail(endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence) {
    world_failure *f = &world(e)->failure;
    uint32_t unclaimed = 0;
    if (!__atomic_compare_exchange_n(&f->claimed, &unclaimed, 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        struct timespec moment = {0, 1000000};
        for (int i = 0; i < 1000 && !failure_kind(e); i++) nanosleep(&moment, NULL);
        if (failure_kind(e)) return STOP;
        /* Who claimed it has died before it could say why. */
    }
    f->rank = e->rank, f->culprit = culprit, f->sequence = sequence;
    f->waited = e->timeout;
    f->mine = e->me->calls[sequence % CALLS];
    f->theirs = header(e, culprit)->calls[sequence % CALLS];
    f->missing_ranks = 0;
    for (int64_t r = 0; r < e->size; r++)
        if (kind == FAILURE_TIMEOUT && LOAD(&header(e, r)->entered) < (uint64_t)e->sequence)
            if (f->missing_ranks++ < MISSING) f->missing[f->missing_ranks - 1] = r;
    STORE(&f->kind, kind);
    ring_all(e);
    return STOP;
}

static int has_left(const endpoint *e, int64_t rank) {
    uint32_t status = LOAD(&header(e, rank)->status);
    return status == RANK_CLOSED || status == RANK_FAILED ||
           (e->processes[rank].revents & (POLLIN | POLLHUP));
}

/* Is there still hope for this call? Asked now and then by a rank that waits. */
static int check(endpoint *e) {
    struct timespec t;
    if (failure_kind(e)) return STOP;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double time = t.tv_sec + 1e-9 * t.tv_nsec;
    if (!e->waiting_since) e->waiting_since = e->checked = time;
    if (time - e->checked < CHECK_SECONDS) return GO_ON;
    e->checked = time;
    int64_t sequence = e->sequence;
    poll(e->processes, e->size, 0);
    if (LOAD(&e->me->status) != RANK_ACTIVE) /* closed by another thread */
        return fail(e, FAILURE_PEER, e->rank, sequence);
    for (int64_t r = 0; r < e->size; r++) {
        rank_header *peer = header(e, r);
        call_record *call = &peer->calls[sequence % CALLS];
        if (r == e->rank) continue;
        if (LOAD(&call->sequence) == sequence && call->fingerprint != e->fingerprint &&
            LOAD(&call->sequence) == sequence)
            return fail(e, FAILURE_MISMATCH, r, sequence);
        if (has_left(e, r) && LOAD(&peer->completed) < (uint64_t)sequence)
            return fail(e, FAILURE_PEER, r, sequence);
    }
    if (e->timeout >= 0 && time - e->waiting_since > e->timeout)
        return fail(e, FAILURE_TIMEOUT, e->rank, sequence);
    return SIGNALS;
}

/* ---- calls */

/* The sequence number is part of the fingerprint: calls in another order differ. What
 * is called after a failure is not recorded, so that all ranks tell the same story. */
static int endpoint_enter(endpoint *e, const call_record *call, double timeout) {
    if (failure_kind(e)) return STOP;
    call_record *record = &e->me->calls[++e->sequence % CALLS];
    STORE(&record->sequence, 0); /* a reader must not take old and new for one call */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    e->fingerprint = call->fingerprint ^ e->sequence * INT64_C(0x2545f4914f6cdd1d);
    int64_t sequence = e->sequence;
    memcpy(&record->fingerprint, &call->fingerprint,
           sizeof *call - offsetof(call_record, fingerprint));
    record->fingerprint = e->fingerprint;
    STORE(&record->sequence, sequence);
    e->timeout = timeout;
    e->waiting_since = 0;
    STORE(&e->me->entered, (uint64_t)e->sequence);
    return GO_ON;
}

static void endpoint_exit(endpoint *e) {
    STORE(&e->me->completed, (uint64_t)e->sequence);
}

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
    memcpy(region(e, e->rank) + window_offset(e->size) + offset, data, *nbytes);
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
