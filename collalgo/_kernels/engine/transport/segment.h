/* The memory that the ranks of one host share.
 *
 * It holds a world header and one region per rank. A region holds
 *   - a header: who is waiting, how far the rank is, what it called last;
 *   - acks: how many messages from each peer, on each lane, the rank has consumed;
 *   - offers: for each peer and lane, where it may write a message;
 *   - mailboxes: for each peer and lane a ring of lines that the rank writes;
 *   - a window: rings in which the rank stages what does not fit into a line;
 *   - a carrier, if there are two ranks: a place that goes back and forth.
 * Behind the regions lies a heap for each rank, for arrays that the others may read where
 * they are.
 * Everything but the bells, the failures and the carriers is written by one rank only. */
#ifndef COLLALGO_SEGMENT_H
#define COLLALGO_SEGMENT_H

#include <stdint.h>

#include "transport.h"

#define LINES 8           /* messages under way on one channel */
#define INLINE_BYTES 88   /* what a line carries itself */
#define INLINE_DATA (-1)
#define PUT (-2)           /* instead of the place of what the reader already has */
#define MY_CARRIER (-3)    /* the place is the carrier in the region of the sender, */
#define YOUR_CARRIER (-4)  /* or that in the region of the reader */
/* To write a line that the reader still has in its cache takes three times as long as
 * to write one that it has forgotten. So what is long goes round in a ring larger than the
 * caches of a core, and what is short in a small one, which begins again as soon as nobody
 * reads: what lies in the first caches of both ends takes 5 to 15 % less. Ranks that share
 * cores read what is still in the cache, as long as the rings of all fit: there the large
 * rings begin again early, too.
 *
 * What several read has a ring of its own where a processor remembers for long who had a
 * line, and asks each of them when it is written again: of Intel's servers it is known. With
 * 8 ranks rings of 16 MiB in all were too short for it to forget, with 16 rings of 8 MiB; with
 * 64 and 32 allgathers took half as long, but what one rank reads up to 1.6 times. */
#define SMALL_RING_BYTES 16384
#define SMALL_BYTES 4096   /* the longest message that goes into the small ring; on Intel half,
                            * where one of 4 KiB takes 0.9 times as long in the large one */
#define LARGE_RING_BYTES 2097152
#define WIDE_RING_BYTES 5242880   /* of what several read, at most */
#define WIDE_RINGS_BYTES 41943040 /* of all ranks */
#define SHARED_CORES_BYTES 524288
#define CARRIER_BYTES 524288
#define PART_BYTES 524288 /* of what is long, which is mapped as it is used */
#define LENDS 256          /* messages that are being read where they are */
#define SLOTS 4            /* of a message that is longer than its share of a ring */
#define CALLS 16          /* how many calls of each rank are remembered */
#define EXIT_REASON_BYTES 256
#define MISSING 64        /* how many missing ranks are named */
#define FAILURES 4        /* how many failures are kept, each of an earlier call */


enum { RANK_ABSENT, RANK_ACTIVE, RANK_CLOSED, RANK_FAILED };
/* What is found on another host is told there, and only noted here. */
enum {
    FAILURE_MISMATCH = 1, FAILURE_PEER, FAILURE_TIMEOUT, FAILURE_ELSEWHERE
};
/* Its ranks are those of the world, of which some may be on other hosts. */
typedef struct {
    uint32_t kind;
    int64_t rank, culprit, sequence, missing_ranks;
    double waited;
    call_record mine, theirs;
    int32_t missing[MISSING];
} world_failure;

/* The last failure counts. Those before it stay as they are, for who is reading them. */
typedef struct {
    uint32_t claimed, known;
    world_failure failures[FAILURES];
    double settings[16]; /* written by rank 0 before the others come */
} world_header;

typedef struct {
    uint32_t bell, asleep;
    int64_t reach;   /* the bytes of each heap that this rank has mapped */
    int64_t fetches; /* whether it may read the memory of all other processes */
    int64_t fences;  /* whether it orders what it writes before it looks who sleeps */
    char pad0[CACHE_LINE - 32];
    uint32_t status;
    int32_t process;
    char pad1[CACHE_LINE - 8];
    uint64_t entered, completed;
    char pad2[CACHE_LINE - 16];
    int32_t core;  /* that the rank runs on, from 1; 0 while it lets others run */
    int32_t place; /* the core that it was seen on last, from 1 */
    int64_t ran_since, ran_until; /* when it last went on, and when it let others run */
    char pad3[CACHE_LINE - 24];
    call_record calls[CALLS];
    char exit_reason[EXIT_REASON_BYTES];
} rank_header;

typedef struct {
    uint64_t count;
    char pad[CACHE_LINE - 8];
} ack_line;

typedef struct {
    uint64_t number; /* from 1; written last */
    uint64_t ack;    /* of what came on the channel in the other direction */
    int64_t fingerprint, offset;
    uint32_t nbytes, sequence;
    char data[INLINE_BYTES];
} mail_line;

/* Where a sender may write a message, instead of saying where it can be read. */
typedef struct {
    int64_t fingerprint;   /* of the call; written last */
    int64_t place;         /* of the message, in the region of who offers */
    int64_t number, nbytes; /* of the message on its channel in this call, from 0; its length */
    char pad[CACHE_LINE - 32];
} offer_line;

/* ---- layout */

static inline int64_t round_up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static inline int64_t acks_offset(void) {
    return round_up(sizeof(rank_header), CACHE_LINE);
}
static inline int64_t offers_offset(int64_t size) {
    return acks_offset() + LANES * size * (int64_t)sizeof(ack_line);
}
static inline int64_t mail_offset(int64_t size) {
    return round_up(offers_offset(size) + LANES * size * (int64_t)sizeof(offer_line), 128);
}
static inline int64_t window_offset(int64_t size) {
    int64_t lines = LANES * size * LINES * (int64_t)sizeof(mail_line);
    return round_up(mail_offset(size) + lines, 4096);
}
/* So large that even with the most posts in a step each has a few lines of it. */
static inline int64_t large_ring_bytes(int64_t size) {
    int64_t least = LANES * size * 2 * SLOTS * CACHE_LINE;
    return round_up(least > LARGE_RING_BYTES ? least : LARGE_RING_BYTES, PART_BYTES);
}
/* Of two ranks none has several readers. Where it is not used it takes no memory; the layout
 * must not depend on a core, for ranks may run on different ones. */
static inline int64_t wide_ring_bytes(int64_t size) {
    int64_t share = WIDE_RINGS_BYTES / size, least = large_ring_bytes(size);
    if (size <= 2) return 0;
    if (share > WIDE_RING_BYTES) share = WIDE_RING_BYTES;
    return round_up(share > least ? share : least, PART_BYTES);
}
static inline int64_t carrier_offset(int64_t size) {
    return window_offset(size) + SMALL_RING_BYTES + large_ring_bytes(size) +
           wide_ring_bytes(size);
}
static inline int64_t region_bytes(int64_t size) {
    return carrier_offset(size) + (size == 2) * CARRIER_BYTES;
}
static inline int64_t regions_offset(void) {
    return round_up(sizeof(world_header), 4096);
}
static inline int64_t segment_bytes(int64_t size) {
    return round_up(regions_offset() + size * region_bytes(size), 1 << 21);
}

#endif
