/* One rank's end of a segment: what it knows for itself, and where all is. */
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

#define CHECK_SECONDS 0.02
#define NAP_NANOSECONDS 10000000 /* nobody rings for a death or a timeout */
#define LONGER 16                /* how much longer than the first a sleep becomes */

/* One channel as its owner sees it, and where in the segment its two ends write. */
typedef struct {
    uint64_t sent, acked, consumed;
    mail_line *out, *in;       /* LINES of each */
    ack_line *given, *gotten;  /* for what came in, and for what went out */
    offer_line *offered, *offer; /* by me, and to me */
    int64_t number, nbytes; /* of the last message that I wrote where that was offered, */
    int64_t hopes;          /* and how often more I look whether it is again */
    rank_header *peer;
    uint64_t bit; /* of the peer in `missing` */
} channel_state;

/* Some of a rank's memory, which its owner may use again once a reader has sent an ack
 * for a message. */
typedef struct {
    int64_t channel;
    uint64_t number;
    int64_t end; /* of memory in a ring, counted through all rounds */
} hold;

/* What of my memory a reader reads where it is, until its ack. */
typedef struct {
    int64_t channel;
    uint64_t number;
} lend;

/* A part of the window, used and freed in turn. */
typedef struct {
    int64_t offset, bytes, enough; /* after which an empty ring begins again */
    int64_t head, tail;            /* counted through all rounds */
    hold *holds;
    int64_t first, last, capacity;
} ring;

/* Until when, and for how long, I expect that yields are long. */
typedef struct {
    int64_t until, length;
} busy_spell;

/* One post of the current step: its place in a ring, and after how many messages each
 * of its slots was used last. */
typedef struct {
    ring *ring;
    int64_t offset, slot_bytes, slots, slot, messages, left, first_hold, place;
    int64_t used[SLOTS];
    uint64_t *before; /* for each reader, the lines sent to it before this post */
} post_state;

struct endpoint {
    char *base, *regions;
    int64_t region_bytes; /* of each rank */
    int64_t rank, size;   /* among the ranks of this host */
    int64_t *names;     /* the number of each of them in the world */
    rank_header *me;
    channel_state *channels; /* [lane][peer] */
    post_state *posts;
    int64_t posts_of_step, brief;
    uint64_t *before, *before_free;
    ring small, large, wide;
    int64_t small_bytes; /* the longest message that goes into the small ring */
    ring *several;     /* the one for what is long and several read */
    int64_t carriers[2]; /* those that I may write to, the last read last, */
    int64_t held;        /* and how many they are */
    const char *heap;
    int64_t heap_bytes, lends_out;
    lend lends[LENDS];
    char inline_data[INLINE_BYTES];
    wait_turns usual, aside; /* how I wait, and while the thread of a caller computes */
    clockid_t caller;        /* of its processor time; NOBODY where I run my own call */
    int64_t looked, used;    /* the nanoseconds when I looked at it last, and of it then */
    int rests;
    busy_spell by_others, by_ranks, by_caller; /* in which who computes on my core */
    int64_t slow_yield; /* the ticks when the last yield ended that was slow */
    int64_t spread_at;   /* when I look again for a core with fewer ranks, */
    int64_t moved, stay; /* when I have moved to one, and how long I stay if I should not */
    int64_t hope_ends; /* the ticks, or 0 if I have not hoped since something came */
    uint64_t missing; /* of the first 64 ranks those that nothing has come from */
    double line_ticks; /* to write a line of what is staged, lately */
    int64_t staged;    /* how many parts have been, */
    int64_t unstaged;  /* and how many were not to be */
    int64_t nap, naps; /* the nanoseconds of the first sleep at most, and how many so far */
    int64_t parts;   /* of the long rings of each rank, */
    char *populated; /* and which of them have been mapped, for me */
    int64_t fences;    /* whether I order what I write before I look who sleeps, */
    int64_t all_fence; /* and whether all do, as far as I know */
    uint32_t bell_seen;
    struct pollfd *processes; /* readable when the process of a rank has ended */
    int64_t sequence, fingerprint;
    int64_t remembers; /* all ones if the fingerprint is of all calls so far, else 0 */
    double timeout, waiting_since, checked;
};

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)

/* ---- where things are */

static char *region(const endpoint *e, int64_t rank) {
    return e->regions + rank * e->region_bytes;
}
static world_header *world(const endpoint *e) { return (world_header *)e->base; }
static rank_header *header(const endpoint *e, int64_t rank) {
    return (rank_header *)region(e, rank);
}
static ack_line *ack(const endpoint *e, int64_t reader, int64_t lane, int64_t sender) {
    return (ack_line *)(region(e, reader) + acks_offset()) + lane * e->size + sender;
}
static offer_line *offer_of(const endpoint *e, int64_t reader, int64_t lane,
                            int64_t sender) {
    char *lines = region(e, reader) + offers_offset(e->size);
    return (offer_line *)lines + lane * e->size + sender;
}
static mail_line *mailbox(const endpoint *e, int64_t sender, int64_t lane,
                          int64_t reader) {
    mail_line *lines = (mail_line *)(region(e, sender) + mail_offset(e->size));
    return lines + (lane * e->size + reader) * LINES;
}

/* ---- life of an endpoint */

static void endpoint_free(endpoint *e) {
    if (!e) return;
    free(e->channels), free(e->posts), free(e->before);
    free(e->small.holds), free(e->large.holds), free(e->wide.holds);
    free(e->processes), free(e->populated), free(e->names), free(e);
}

static int ring_init(ring *r, int64_t offset, int64_t bytes, int64_t capacity) {
    *r = (ring){.offset = offset, .bytes = bytes, .enough = bytes, .capacity = capacity};
    return (r->holds = calloc(capacity, sizeof(hold))) != NULL;
}

static void open_channels(endpoint *e) {
    for (int64_t channel = 0; channel < LANES * e->size; channel++) {
        int64_t lane = channel / e->size, peer = channel % e->size;
        e->channels[channel] = (channel_state){
            .out = mailbox(e, e->rank, lane, peer), .in = mailbox(e, peer, lane, e->rank),
            .given = ack(e, e->rank, lane, peer), .gotten = ack(e, peer, lane, e->rank),
            .offered = offer_of(e, e->rank, lane, peer),
            .offer = offer_of(e, peer, lane, e->rank),
            .peer = header(e, peer), .bit = peer < 64 ? UINT64_C(1) << peer : 0,
        };
    }
}

/* Order from now on what I write before I look who sleeps: then nobody who goes to sleep
 * need make my processor do it, which stops what it does for microseconds. */
static void endpoint_fence(endpoint *e) {
    e->fences = 1;
    STORE(&e->me->fences, 1);
}

/* A step may have so many `posts`, of which some go to other hosts. */
static endpoint *endpoint_new(char *base, int64_t heap_bytes, int64_t rank, int64_t size,
                              int64_t posts) {
    endpoint *e = calloc(1, sizeof(endpoint));
    size_t channels = LANES * size;
    if (!e) return NULL;
    e->base = base, e->rank = rank, e->size = size, e->nap = NAP_NANOSECONDS;
    e->regions = base + regions_offset(), e->region_bytes = region_bytes(size);
    e->heap_bytes = heap_bytes;
    e->heap = base + segment_bytes(size) + rank * heap_bytes;
    e->channels = calloc(channels, sizeof(channel_state));
    e->posts = calloc(posts, sizeof(post_state));
    e->before = calloc(channels, sizeof(uint64_t));
    e->processes = calloc(size, sizeof(struct pollfd));
    e->names = calloc(size, sizeof(int64_t));
    int64_t small = window_offset(size), large = small + SMALL_RING_BYTES;
    int64_t wide = large + large_ring_bytes(size), holds = 2 * LINES * channels;
    e->parts = (e->region_bytes - large) / PART_BYTES;
    e->populated = calloc(size * e->parts, 1);
    if (!e->channels || !e->posts || !e->before || !e->processes || !e->populated ||
        !e->names ||
        !ring_init(&e->small, small, SMALL_RING_BYTES, holds) ||
        !ring_init(&e->large, large, large_ring_bytes(size), holds) ||
        !ring_init(&e->wide, wide, wide_ring_bytes(size), holds)) {
        endpoint_free(e);
        return NULL;
    }
    e->small_bytes = moves_lines ? SMALL_BYTES / 2 : SMALL_BYTES;
    e->small.enough = 0; /* so that a core finds in its nearest cache what it writes */
    if (size == 2 && moves_lines) e->carriers[e->held++] = MY_CARRIER;
    e->several = hands_over && e->wide.bytes ? &e->wide : &e->large;
    open_channels(e);
    for (int64_t r = 0; r < size; r++) e->processes[r] = (struct pollfd){-1, POLLIN, 0};
    e->me = header(e, rank);
    e->me->reach = heap_bytes;
    e->remembers = -1;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
        endpoint_fence(e);
    STORE(&e->me->status, RANK_ACTIVE);
    return e;
}

/* The ranks share cores. */
static void endpoint_crowd(endpoint *e) {
    e->large.enough = SHARED_CORES_BYTES;
    e->several = &e->large;
    endpoint_fence(e);
}

static void futex_wake(uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void ring_bell(rank_header *peer) {
    __atomic_add_fetch(&peer->bell, 1, __ATOMIC_SEQ_CST);
    futex_wake(&peer->bell);
}

static void ring_all(const endpoint *e) {
    for (int64_t r = 0; r < e->size; r++) ring_bell(header(e, r));
}

/* Tell the others that this rank will not take part any more, and why. */
static void endpoint_leave(endpoint *e, uint32_t status, const char *exit_reason) {
    if (LOAD(&e->me->status) != RANK_ACTIVE) return;
    strncpy(e->me->exit_reason, exit_reason, EXIT_REASON_BYTES - 1);
    STORE(&e->me->status, status);
    ring_all(e);
}

#endif
