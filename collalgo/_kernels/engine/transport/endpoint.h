/* The endpoint of one rank: its private state, and the layout of the shared segment. */
#ifndef COLLALGO_ENDPOINT_H
#define COLLALGO_ENDPOINT_H

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "processor.h"
#include "segment.h"
#include "ticks.h"

#define CHECK_SECONDS 0.005     /* between two checks for deaths, */
#define CHECK_SECONDS_PER_RANK 5e-6      /* longer with many ranks, each of which takes time, */
#define SIGNAL_SECONDS 0.02     /* and for signals, which need the GIL */
#define SLEEP_NANOSECONDS 5000000 /* at most: no bell announces a death or a timeout */
#define SLEEP_GROWTH 16                /* the longest sleep, in multiples of the first */

/* The state of one channel, with pointers to the lines that its two ends write. */
typedef struct {
    uint64_t sent, acked, consumed;
    mail_line *out, *in;          /* LINES of each */
    ack_line *acks_out, *acks_in; /* of received messages, and of sent ones */
    offer_line *offered, *offer;  /* by this rank, and by its peer */
    int64_t number, nbytes; /* of the last message that was written to its destination, */
    int64_t offer_polls;    /* and the polls left for the same offer in this call */
    rank_header *peer;
    uint64_t bit; /* of the peer in `missing` */
} channel_state;

/* A run of a ring, which the sender may reuse once a reader has acknowledged a message. */
typedef struct {
    int64_t channel;
    uint64_t number;
    int64_t end; /* of the run, counted through all rounds of the ring */
} hold;

/* A zero-copy message, whose memory the reader reads until it acknowledges it. */
typedef struct {
    int64_t channel;
    uint64_t number;
} direct_send;

/* A ring of the window: allocated and freed in order. */
typedef struct {
    int64_t offset, bytes, restart_bytes; /* an empty ring restarts past `restart_bytes` bytes */
    int64_t head, tail;            /* counted through all rounds */
    hold *holds;
    int64_t first, last, capacity;
} ring;

/* A period in which yields are expected to be long: its end and its length. */
typedef struct {
    int64_t until, length;
} busy_spell;

/* Measurements of the caches of the readers of staging memory. */
typedef struct {
    double line_ticks;    /* to write a staged cache line, a moving average */
    int64_t staged_parts; /* the number of short or far staged parts */
} staging_state;

/* One post of the current step: its run of a ring, and for each of its slots the number of
 * messages after which it was used last. */
typedef struct {
    ring *ring;
    int64_t offset, slot_bytes, slots, slot, messages, left, first_hold, place;
    int64_t used[SLOTS];
    uint64_t *before; /* for each reader, the number of lines sent before this post */
} post_state;

struct endpoint {
    char *base, *regions;
    int64_t region_bytes; /* of each rank */
    int64_t rank, size;   /* among the ranks of this host */
    int64_t *world_ranks; /* their ranks in the world */
    rank_header *me;
    channel_state *channels; /* [lane][peer] */
    post_state *posts;
    int64_t posts_of_step, brief;
    uint64_t *before, *before_free;
    ring small, large, wide;
    int64_t small_bytes; /* the longest message of the small ring */
    ring *multi_reader;       /* the ring of long messages with several readers */
    int64_t recycled[2];    /* the recycled slots of this rank, the newest last, */
    int64_t recycled_count; /* and their number */
    const char *heap;
    int64_t heap_bytes, direct_count;
    int has_made_offers; /* whether this rank has offered a place to a sender */
    direct_send direct_sends[DIRECT_SENDS];
    char inline_data[INLINE_BYTES];
    wait_policy usual, background; /* of waits, and of waits while the caller computes */
    clockid_t caller;        /* its processor time; NO_CALLER if this thread is the caller */
    int64_t caller_read_at, caller_used; /* the time of its last reading, its value, in ns */
    int caller_idle;
    busy_spell by_others, by_ranks, by_caller; /* periods in which these use this core */
    int64_t slow_yield;  /* the ticks at the end of the last slow yield */
    int polls;            /* whether this rank must poll an engine while it waits */
    int64_t polls_until;  /* the ticks at which such polls end at the latest */
    int64_t spread_at;   /* the time of the next search for a core with fewer ranks, */
    int64_t moved, stay; /* of the last move, and the pause after a move that was a mistake */
    int64_t spin_ends; /* the ticks, or 0 if none began since the last message */
    uint64_t missing; /* the bits of the first 64 ranks that this rank waits for */
    staging_state staging;
    int64_t direct_parts; /* the number of zero-copy parts */
    int64_t first_sleep, sleeps; /* the longest first sleep in ns, and the number of sleeps */
    int64_t parts;   /* of the long rings of each rank, */
    char *populated; /* and whether each of them is mapped in this process */
    int64_t fences;    /* whether this rank fences between a write and the test for sleepers, */
    int64_t all_fence; /* and whether all ranks are known to do so */
    uint32_t bell_seen;
    struct pollfd *processes; /* readable once the process of a rank has ended */
    int64_t sequence, fingerprint, number; /* of calls as the user counts them */
    double timeout, waiting_since, checked, signals;
};

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)

/* ---- layout */

static inline char *region(const endpoint *e, int64_t rank) {
    return e->regions + rank * e->region_bytes;
}
static inline world_header *world(const endpoint *e) { return (world_header *)e->base; }
static inline rank_header *header(const endpoint *e, int64_t rank) {
    return (rank_header *)region(e, rank);
}
static inline ack_line *ack(const endpoint *e, int64_t reader, int64_t lane, int64_t sender) {
    return (ack_line *)(region(e, reader) + acks_offset()) + lane * e->size + sender;
}
static inline offer_line *offer_of(const endpoint *e, int64_t reader, int64_t lane,
                                   int64_t sender) {
    char *lines = region(e, reader) + offers_offset(e->size);
    return (offer_line *)lines + lane * e->size + sender;
}
static inline mail_line *mailbox(const endpoint *e, int64_t sender, int64_t lane,
                                 int64_t reader) {
    mail_line *lines = (mail_line *)(region(e, sender) + mail_offset(e->size));
    return lines + (lane * e->size + reader) * LINES;
}

/* ---- life of an endpoint */

static inline void endpoint_free(endpoint *e) {
    if (!e) return;
    free(e->channels), free(e->posts), free(e->before);
    free(e->small.holds), free(e->large.holds), free(e->wide.holds);
    free(e->processes), free(e->populated), free(e->world_ranks), free(e);
}

static inline int ring_init(ring *r, int64_t offset, int64_t bytes, int64_t capacity) {
    *r = (ring){.offset = offset, .bytes = bytes, .restart_bytes = bytes, .capacity = capacity};
    return (r->holds = malloc(capacity * sizeof(hold))) != NULL;
}

/* Open all channels, whose messages are numbered from `first` on. */
static inline void open_channels(endpoint *e, uint64_t first) {
    for (int64_t channel = 0; channel < LANES * e->size; channel++) {
        int64_t lane = channel / e->size, peer = channel % e->size;
        e->channels[channel] = (channel_state){
            .sent = first, .acked = first, .consumed = first,
            .out = mailbox(e, e->rank, lane, peer), .in = mailbox(e, peer, lane, e->rank),
            .acks_out = ack(e, e->rank, lane, peer), .acks_in = ack(e, peer, lane, e->rank),
            .offered = offer_of(e, e->rank, lane, peer),
            .offer = offer_of(e, peer, lane, e->rank),
            .peer = header(e, peer), .bit = peer < 64 ? UINT64_C(1) << peer : 0,
        };
    }
}

/* Fence from now on between a write and the test for sleepers. A rank that goes to sleep then
 * needs no membarrier, which would interrupt this processor for microseconds. */
static inline void endpoint_fence(endpoint *e) {
    e->fences = 1;
    STORE(&e->me->fences, 1);
}

/* Allocate the private state: whether there was memory for all of it. */
static inline int allocate(endpoint *e, int64_t posts) {
    size_t channels = LANES * e->size;
    e->channels = malloc(channels * sizeof(channel_state));
    e->posts = malloc(posts * sizeof(post_state));
    e->before = malloc(channels * sizeof(uint64_t));
    e->processes = calloc(e->size, sizeof(struct pollfd));
    e->world_ranks = calloc(e->size, sizeof(int64_t));
    return e->channels && e->posts && e->before && e->processes && e->world_ranks;
}

/* Lay out the rings of the window: whether there was memory for their holds. */
static inline int open_rings(endpoint *e) {
    int64_t size = e->size, holds = 2 * LINES * LANES * size;
    int64_t small = window_offset(size), large = small + SMALL_RING_BYTES;
    int64_t wide = large + large_ring_bytes(size);
    e->parts = (messages_offset(size) - large) / PART_BYTES;
    e->populated = calloc(size * e->parts, 1);
    return e->populated && ring_init(&e->small, small, SMALL_RING_BYTES, holds) &&
           ring_init(&e->large, large, large_ring_bytes(size), holds) &&
           ring_init(&e->wide, wide, wide_ring_bytes(size), holds);
}

/* Adapt to the processor and to the number of ranks. */
static inline void configure(endpoint *e) {
    e->small_bytes = moves_lines ? SMALL_BYTES / 2 : SMALL_BYTES;
    e->small.restart_bytes = 0; /* the lines that a core writes stay in its first cache */
    if (e->size == 2 && moves_lines) e->recycled[e->recycled_count++] = OWN_SLOT;
    e->multi_reader = demotes_lines && e->wide.bytes ? &e->wide : &e->large;
    for (int64_t r = 0; r < e->size; r++) e->processes[r] = (struct pollfd){-1, POLLIN, 0};
}

static inline void futex_wake(uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline void ring_bell(rank_header *peer) {
    __atomic_add_fetch(&peer->bell, 1, __ATOMIC_SEQ_CST);
    futex_wake(&peer->bell);
}

/* Wake a rank if it sleeps; one bell is enough, however late it gets a core. */
static inline void wake_rank(rank_header *peer) {
    if (LOAD(&peer->asleep) && __atomic_exchange_n(&peer->asleep, 0, __ATOMIC_SEQ_CST))
        ring_bell(peer);
}

/* Announce this rank to the others, which may wait for it and then read its published values. */
static inline void endpoint_announce(endpoint *e) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
        endpoint_fence(e);
    STORE(&e->me->status, RANK_ACTIVE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int64_t r = 0; r < e->size; r++) wake_rank(header(e, r));
}

/* Make an endpoint for steps of at most `posts` posts, including those to other hosts, in memory
 * that has had `round` groups before. The other ranks see it once it is announced. */
static inline endpoint *endpoint_new(char *base, const char *heap, int64_t heap_bytes,
                                     int64_t rank, int64_t size, int64_t posts, int64_t round) {
    endpoint *e = calloc(1, sizeof(endpoint));
    if (!e) return NULL;
    e->base = base, e->rank = rank, e->size = size, e->first_sleep = SLEEP_NANOSECONDS;
    e->regions = base + regions_offset(), e->region_bytes = region_bytes(size);
    e->heap_bytes = heap_bytes, e->heap = heap;
    if (!allocate(e, posts) || !open_rings(e)) {
        endpoint_free(e);
        return NULL;
    }
    configure(e);
    open_channels(e, (uint64_t)round << ROUND_BITS);
    e->me = header(e, rank);
    e->me->reach = heap_bytes;
    return e;
}

/* Adapt to ranks that share cores. */
static inline void endpoint_share_cores(endpoint *e) {
    e->large.restart_bytes = SHARED_CORES_BYTES;
    e->multi_reader = &e->large;
    endpoint_fence(e);
}

static inline void ring_all(const endpoint *e) {
    for (int64_t r = 0; r < e->size; r++) ring_bell(header(e, r));
}

/* Whether the next group needs new pages: this rank has used more of the memory than lines, acks
 * and short rings, or a failure has been reported. */
static inline int endpoint_needs_new_pages(const endpoint *e) {
    const world_header *w = world(e);
    return e->has_made_offers || e->large.head || e->wide.head || LOAD(&w->claimed) ||
           LOAD(&w->known);
}

/* Announce that this rank leaves, with the reason. */
static inline void endpoint_leave(endpoint *e, uint32_t status, const char *exit_reason) {
    if (LOAD(&e->me->status) != RANK_ACTIVE) return;
    strncpy(e->me->exit_reason, exit_reason, EXIT_REASON_BYTES - 1);
    STORE(&e->me->status, status);
    ring_all(e);
}

#endif
