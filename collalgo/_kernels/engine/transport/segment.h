/* The memory that the ranks of one host share.
 *
 * It holds a world header and one region per rank. A region holds
 *   - a header: whether the rank sleeps, its progress, its last calls;
 *   - acks: for each peer and lane, the number of messages that the rank has consumed;
 *   - offers: for each peer and lane, where the peer may write a message;
 *   - mailboxes: for each peer and lane, a ring of lines that the rank writes;
 *   - a window: rings in which the rank stages messages that do not fit into a line;
 *   - a recycled slot, if there are two ranks (recycled_slots.h);
 *   - for each peer, a ring of messages matched by tags (message_ring.h).
 * Behind the regions lies a heap for each rank, for arrays that are sent without a copy.
 * Everything but the bells, the failures and the recycled slots has a single writer. */
#ifndef COLLALGO_SEGMENT_H
#define COLLALGO_SEGMENT_H

#include <stdint.h>

#include "transport.h"

#define LINES 8           /* messages in flight on one channel */
#define INLINE_BYTES 88   /* the longest message inside a line */
#define INLINE_DATA (-1)
#define PUT (-2)          /* the message is at its destination already */
#define OWN_SLOT (-3)     /* the place is the recycled slot in the region of the sender, */
#define PEER_SLOT (-4)    /* or that in the region of the reader */

/* A write to a line that is still in the cache of its reader takes three times as long as to
 * one that has left it. So long messages use a ring larger than the caches of a core, and
 * short ones a small ring, which restarts as soon as it is empty: messages in the first caches
 * of both ends take 5 to 15 % less. Ranks that share cores read from the same cache while the
 * rings of all fit into it: there the large rings restart early, too.
 *
 * Messages with several readers have a ring of their own where a processor keeps a record of
 * the cores that had a line, and asks each of them at the next write: Intel's servers do. With
 * 8 ranks, rings of 16 MiB in all were too short for the record to be dropped, with 16 ranks
 * rings of 8 MiB; with 64 and 32 MiB allgathers took half as long, but messages with one reader
 * up to 1.6 times. */
#define SMALL_RING_BYTES 16384
#define SMALL_BYTES 4096   /* the longest message of the small ring; on Intel half of it,
                            * where 4 KiB take 0.9 times as long in the large ring */
#define LARGE_RING_BYTES 2097152
#define WIDE_RING_BYTES 5242880   /* for several readers, at most */
#define WIDE_RINGS_BYTES 41943040 /* of all ranks */
#define SHARED_CORES_BYTES 524288
#define RECYCLED_BYTES 524288
#define PART_BYTES 524288 /* of the long rings, mapped at a time */
#define DIRECT_SENDS 256  /* zero-copy messages in flight */
#define SLOTS 4           /* of a message that is longer than its share of a ring */
#define MESSAGE_SLOTS 64  /* of a ring of messages matched by tags, */
#define SLOT_BYTES 64     /* the longest message inside a slot, */
#define CLAIMS 64         /* and the long messages that the reader may read now */
#define MESSAGE_DATA_BYTES 65536
#define MANY_RANKS 64     /* more have shorter rings, as their number is squared */
#define CALLS 16          /* the last calls that are kept for each rank */
#define EXIT_REASON_BYTES 256
#define HOST_RANKS 4096        /* of a host, at most */
#define ROUND_BITS 40     /* of the numbers of messages; the other bits count groups (pool.h) */
#define MISSING 64        /* the missing ranks that a failure names at most */
#define FAILURES 4        /* the failures kept, each of an earlier call than the last */

enum { RANK_ABSENT, RANK_ACTIVE, RANK_CLOSED, RANK_FAILED };
/* FAILURE_ELSEWHERE: the ranks of another host describe the failure. FAILURE_READ: a rank could
 * not read the memory of the culprit, whose process has not ended. FAILURE_REVOKED: the culprit
 * has aborted the calls of all ranks. */
enum {
    FAILURE_MISMATCH = 1, FAILURE_PEER, FAILURE_TIMEOUT, FAILURE_ELSEWHERE, FAILURE_READ,
    FAILURE_REVOKED
};
/* Its ranks are those of the world, also of other hosts. */
typedef struct {
    uint32_t kind;
    int64_t rank, culprit, sequence, missing_ranks;
    double waited;
    call_record mine, theirs;
    int32_t missing[MISSING];
} world_failure;

/* The last failure counts. Earlier ones stay unchanged for ranks that are reading them. */
typedef struct {
    uint32_t claimed, known;
    world_failure failures[FAILURES];
    double settings[16]; /* written by rank 0 before the others attach */
    uint32_t revoked;    /* the rank of the world that has revoked it, from 1; 0 if none has */
    uint64_t decision;   /* of the survivors (survivors.h): its round, and the rank that made it */
} world_header;

typedef struct {
    uint32_t bell, asleep;
    int64_t reach;   /* the bytes of each heap that this rank has mapped */
    int64_t can_fetch; /* whether it can read the memory of all other processes */
    int64_t fences;  /* whether it fences between a write and the test for sleepers */
    char pad0[CACHE_LINE - 32];
    uint32_t status;
    int32_t process;
    char pad1[CACHE_LINE - 8];
    uint64_t entered, completed;
    char pad2[CACHE_LINE - 16];
    int32_t core;  /* that the rank runs on, from 1; 0 while it yields or sleeps */
    int32_t place; /* the core that it ran on last, from 1 */
    int64_t ran_since, ran_until; /* the begin and end of its last run */
    char pad3[CACHE_LINE - 24];
    call_record calls[CALLS];
    char exit_reason[EXIT_REASON_BYTES];
    uint64_t round;            /* the last round of the survivors that the rank has entered, */
    uint64_t lost[HOST_RANKS / 64]; /* and a bit for each rank that it has found lost */
    call_record joining;         /* the call for a group that this rank waits in, with the */
    uint64_t members[HOST_RANKS / 64]; /* number of the next call; 0 if none. Its ranks, as bits */
} rank_header;

typedef struct {
    uint64_t count;
    char pad[CACHE_LINE - 8];
} ack_line;

typedef struct {
    uint64_t number; /* from 1; written last */
    uint64_t ack;    /* of messages of the channel in the other direction */
    int64_t fingerprint, offset;
    uint32_t nbytes, sequence;
    char data[INLINE_BYTES];
} mail_line;

/* An offer: the destination to which the sender may write a message itself. */
typedef struct {
    int64_t fingerprint;   /* of the call; written last */
    int64_t place;         /* of the message, in the region of the reader */
    int64_t number, nbytes; /* of the message on its channel in this call, from 0; its length */
    char pad[CACHE_LINE - 32];
} offer_line;

/* The header of a slot of a message ring; comm/point_to_point has the kinds. */
typedef struct {
    uint8_t kind, on_device;
    int16_t claim;      /* of a long message, or the reason why it has none */
    uint32_t dtype;     /* its number in engine/dtypes.py */
    int64_t tag, number, count, nbytes;
    int64_t place;      /* of a long message in the memory of its sender */
} message_head;

typedef struct {
    uint64_t number; /* from 1; written last */
    int32_t nbytes;  /* of the payload, the elements of a short message, */
    int32_t offset;  /* and its offset in the data, unless it fits into the slot */
    message_head head;
    char data[SLOT_BYTES];
} message_slot;

/* Its data follows. */
typedef struct {
    uint64_t consumed; /* slots; written by the reader, */
    int64_t taken;     /* as are the bytes of short messages that calls have received */
    char pad[2 * CACHE_LINE - 16]; /* slots are pairs of lines, which are fetched together */
    uint64_t claims[CLAIMS]; /* written by both */
    message_slot slots[MESSAGE_SLOTS];
} message_ring;

/* Wakes the threads of a rank that wait for messages. */
typedef struct {
    uint32_t bell, asleep;
    char pad[2 * CACHE_LINE - 8];
} message_bell;

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
/* Large restart_bytes that each post has a few lines, even with the most posts in a step. */
static inline int64_t large_ring_bytes(int64_t size) {
    int64_t least = LANES * size * 2 * SLOTS * CACHE_LINE;
    return round_up(least > LARGE_RING_BYTES ? least : LARGE_RING_BYTES, PART_BYTES);
}
/* With two ranks no message has several readers. A ring that is not used takes no memory; the
 * layout must not depend on the core, as ranks may run on different ones. */
static inline int64_t wide_ring_bytes(int64_t size) {
    int64_t share = WIDE_RINGS_BYTES / size, least = large_ring_bytes(size);
    if (size <= 2) return 0;
    if (share > WIDE_RING_BYTES) share = WIDE_RING_BYTES;
    return round_up(share > least ? share : least, PART_BYTES);
}
static inline int64_t recycled_offset(int64_t size) {
    return window_offset(size) + SMALL_RING_BYTES + large_ring_bytes(size) +
           wide_ring_bytes(size);
}
static inline int64_t messages_offset(int64_t size) {
    return recycled_offset(size) + (size == 2) * RECYCLED_BYTES;
}
static inline int64_t message_data_bytes(int64_t size) {
    return MESSAGE_DATA_BYTES / (size > MANY_RANKS ? 2 : 1);
}
static inline int64_t message_ring_bytes(int64_t size) {
    return (int64_t)sizeof(message_ring) + message_data_bytes(size);
}
static inline int64_t region_bytes(int64_t size) {
    int64_t bytes = sizeof(message_bell) + size * message_ring_bytes(size);
    return round_up(messages_offset(size) + bytes, 4096);
}
static inline int64_t regions_offset(void) {
    return round_up(sizeof(world_header), 4096);
}
static inline int64_t segment_bytes(int64_t size) {
    return round_up(regions_offset() + size * region_bytes(size), 1 << 21);
}

#endif
