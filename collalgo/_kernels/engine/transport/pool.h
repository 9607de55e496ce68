/* The pool: the memory for the groups of the ranks of a host, after the ranks' own regions.
 *
 * It holds a directory, and blocks for groups of up to 2, 4, 8... ranks, whose pages are taken
 * at their first use. The directory finds the block of a group by its key, a hash of its name:
 * its first rank takes a free block, its last rank frees it. A rank that changes the directory
 * holds its lock for less than a microsecond. If its process ends meanwhile, a block may be lost,
 * but no list is broken.
 *
 * A free block holds zeros, as its pages are returned to the kernel. A few blocks of each class,
 * the warm ones, keep their pages, since new pages cost more time than all other steps of making
 * a group. A warm block serves groups of the same size only. Their message numbers continue those
 * of the previous group, so that old lines are not read as new ones.
 *
 * For each rank of the host and each block, one bit marks a member of the group, and another a
 * member that has joined, so other ranks can leave in place of a rank whose process has ended. */
#ifndef COLLALGO_POOL_H
#define COLLALGO_POOL_H

#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "segment.h"

#define CLASSES 12                     /* of blocks: for up to 2, 4, 8... 4096 ranks */
#define CLASS_BYTES ((int64_t)1 << 40) /* addresses of all blocks of a class, at most */
#define BLOCKS 65536                   /* of a class, at most */
#define CHAINS 4096                    /* of the keys of a class */
#define ATTEMPTS 2000                  /* to lock before the process of the owner is checked */
#define LOCK_PAUSE 50000               /* nanoseconds between most of them */
#define WARM 4                         /* free blocks of a class that keep their pages, */
#define WARM_RANKS 64                  /* and the most ranks of a group in one */
#define ROUNDS (1 << 20)               /* of groups in a warm block */

typedef struct {
    uint64_t key[2];
    uint32_t next; /* in its chain, or in the list of free blocks; from 1, or 0 at the end */
    uint32_t users, expected; /* the ranks that use it, and those that have not joined yet */
    uint32_t size;  /* of its group, or of the last one in a warm block */
    uint32_t round; /* the number of its groups since its pages were new */
    uint32_t needs_new_pages;
} pool_entry;

typedef struct {
    uint32_t free, fresh; /* the first free block, and the number of blocks used so far */
    uint32_t warm[WARM];  /* free blocks that keep their pages; 0 for none */
    uint32_t chains[CHAINS];
    pool_entry entries[BLOCKS + 1]; /* from 1 */
} pool_class;

typedef struct {
    uint32_t owner; /* the rank that holds the lock, from 1; 0 if it is free */
    char pad[CACHE_LINE - 4];
    pool_class classes[CLASSES];
} pool_directory;

/* The blocks of a class of which a rank is a member, and those that it has joined. */
typedef struct {
    uint64_t member[BLOCKS / 64 + 1], joined[BLOCKS / 64 + 1];
} pool_marks;

/* The offsets of the directory, the marks and the blocks from the begin of the segment. */
typedef struct {
    int64_t directory, marks, size, classes, end;
    int64_t first[CLASSES], stride[CLASSES], blocks[CLASSES];
} pool_layout;

/* The class of the blocks for a number of ranks. */
static inline int64_t class_of(int64_t size) {
    int64_t found = 0;
    while (((int64_t)2 << found) < size) found++;
    return found;
}

/* The bytes of a block: the most of all numbers of ranks of its class. */
static inline int64_t block_bytes(int64_t class_number) {
    int64_t most = 0, size = class_number ? ((int64_t)1 << class_number) + 1 : 1;
    for (; size <= (int64_t)2 << class_number; size++)
        if (segment_bytes(size) > most) most = segment_bytes(size);
    return most;
}

/* The layout of the pool of `size` ranks. */
static inline void pool_set_layout(pool_layout *p, int64_t size) {
    p->directory = segment_bytes(size);
    p->size = size, p->classes = class_of(size) + 1;
    p->marks = p->directory + round_up(offsetof(pool_directory, classes) +
                                       p->classes * sizeof(pool_class), 4096);
    p->end = p->marks + round_up(p->classes * size * sizeof(pool_marks), 4096);
    p->end = round_up(p->end, 1 << 21);
    for (int64_t c = 0; c < p->classes; c++) {
        int64_t most = CLASS_BYTES / (p->stride[c] = block_bytes(c));
        p->first[c] = p->end, p->blocks[c] = most < BLOCKS ? most : BLOCKS;
        p->end += p->blocks[c] * p->stride[c];
    }
}

/* ---- the lock of the directory; `ends` are readable once the process of a rank has ended */

static inline int has_ended(const struct pollfd *ends, uint32_t rank) {
    struct pollfd end = {-1, POLLIN, 0};
    if (ends && rank) end.fd = ends[rank - 1].fd;
    return end.fd >= 0 && poll(&end, 1, 0) > 0;
}

/* Lock the directory: 0, or the rank, from 1, that has held the lock for the whole wait. */
static inline uint32_t pool_lock(pool_directory *d, uint32_t me, const struct pollfd *ends) {
    struct timespec pause = {0, LOCK_PAUSE};
    uint32_t owner = 0;
    for (int turn = 0; turn < ATTEMPTS || !owner; turn++) {
        uint32_t taken_from = owner;
        if (!has_ended(ends, turn < ATTEMPTS / 2 ? 0 : owner)) taken_from = 0;
        owner = taken_from;
        if (__atomic_compare_exchange_n(&d->owner, &owner, me, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return 0;
        if (turn < ATTEMPTS / 2) sched_yield();
        else nanosleep(&pause, NULL);
    }
    return owner;
}

static inline void pool_unlock(pool_directory *d) {
    __atomic_store_n(&d->owner, 0, __ATOMIC_RELEASE);
}

/* ---- the marks of ranks; all further functions need the lock of the directory */

static inline void mark(uint64_t *marks, uint32_t number, int is_set) {
    uint64_t bit = UINT64_C(1) << number % 64;
    if (is_set) marks[number / 64] |= bit;
    else marks[number / 64] &= ~bit;
}

static inline int is_marked(const uint64_t *marks, uint32_t number) {
    return marks[number / 64] >> number % 64 & 1;
}

/* ---- blocks */

/* Take a free block for a group of `size` ranks, warm if possible; 0 if all are in use. */
static inline uint32_t pool_take_free(pool_class *c, uint32_t size, int64_t blocks) {
    uint32_t found;
    for (int i = 0; i < WARM; i++)
        if ((found = c->warm[i]) && c->entries[found].size == size) {
            c->warm[i] = 0;
            return found;
        }
    if ((found = c->free)) c->free = c->entries[found].next;
    else if (c->fresh < blocks) found = ++c->fresh;
    return found;
}

/* Find the block of a group by its key: its number from 1, or 0. */
static inline uint32_t pool_find(const pool_class *c, const uint64_t *key) {
    uint32_t found = c->chains[key[0] % CHAINS];
    for (; found; found = c->entries[found].next) {
        const uint64_t *other = c->entries[found].key;
        if (other[0] == key[0] && other[1] == key[1]) break;
    }
    return found;
}

/* Take a block for a new group of `size` ranks: its number from 1, or 0 if all are in use. */
static inline uint32_t pool_insert(pool_class *c, const uint64_t *key, uint32_t size,
                                   int64_t blocks) {
    uint32_t *chain = c->chains + key[0] % CHAINS, found = pool_take_free(c, size, blocks);
    if (!found) return 0;
    pool_entry *entry = c->entries + found;
    *entry = (pool_entry){{key[0], key[1]}, *chain, 0, size, size, entry->round, 0};
    *chain = found;
    return found;
}

/* Remove the key of a block, so that no further rank joins it. */
static inline void pool_remove_key(pool_class *c, uint32_t number) {
    uint32_t *link = c->chains + c->entries[number].key[0] % CHAINS;
    while (*link && *link != number) link = &c->entries[*link].next;
    if (*link) *link = c->entries[number].next;
    c->entries[number].expected = 0;
}

/* A rank joins the block of its group. */
static inline void pool_join(pool_class *c, pool_marks *mine, uint32_t number) {
    c->entries[number].users++, c->entries[number].expected--;
    mark(mine->joined, number, 1);
}

/* A rank leaves a block: whether it was the last, so that the key of the block is removed. */
static inline int pool_leave(pool_class *c, pool_marks *its, uint32_t number) {
    pool_entry *entry = c->entries + number;
    if (is_marked(its->joined, number)) entry->users--;
    else if (entry->expected) entry->expected--;
    mark(its->member, number, 0), mark(its->joined, number, 0);
    if (entry->users || entry->expected) return 0;
    pool_remove_key(c, number);
    return 1;
}

/* The next block from `number` on of which a rank is a member; 0 at the end. */
static inline uint32_t pool_next_of_rank(const pool_class *c, const pool_marks *its,
                                         uint32_t number) {
    for (; number <= c->fresh; number++)
        if (is_marked(its->member, number)) return number;
    return 0;
}

/* Free a block without a key, whose pages are new. */
static inline void pool_free(pool_class *c, uint32_t number) {
    c->entries[number].round = 0;
    c->entries[number].next = c->free;
    c->free = number;
}

/* Reset the headers of ranks, which other ranks read before they send. */
static inline void reset_headers(char *block, int64_t size) {
    for (int64_t r = 0; r < size; r++) {
        rank_header *one = (rank_header *)(block + regions_offset() + r * region_bytes(size));
        uint64_t calls = one->entered < CALLS ? one->entered + 1 : CALLS;
        memset(one, 0, offsetof(rank_header, calls) + calls * sizeof(call_record));
        one->exit_reason[0] = 0;
        one->joining.sequence = 0;
    }
}

/* Keep a block without a key with its pages, for a group of the same size: 0 if it needs new
 * pages. */
static inline int pool_keep_warm(pool_class *c, uint32_t number, char *block) {
    pool_entry *entry = c->entries + number;
    if (entry->needs_new_pages || entry->size > WARM_RANKS || entry->round == ROUNDS) return 0;
    for (int i = 0; i < WARM; i++)
        if (!c->warm[i]) {
            reset_headers(block, entry->size);
            entry->round++;
            c->warm[i] = number;
            return 1;
        }
    return 0;
}

#endif
