/* The pool: the memory for the groups of the ranks of one host, behind their own regions.
 *
 * It holds a directory, and blocks for groups of up to 2, 4, 8... ranks, whose pages are taken
 * at their first use. The directory finds the block of a group by its key, a hash of its name:
 * the first of its ranks takes a free block, the last that leaves returns the pages to the
 * kernel, so that a free block holds zeros. The rank that changes the directory owns it for less
 * than a microsecond. If its process ends meanwhile, a block may be lost, but no list is broken. */
#ifndef COLLALGO_POOL_H
#define COLLALGO_POOL_H

#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include "segment.h"

#define CLASSES 12                     /* of blocks: for up to 2, 4, 8... 4096 ranks */
#define CLASS_BYTES ((int64_t)1 << 40) /* addresses of all blocks of a class, at most */
#define BLOCKS 65536                   /* of a class, at most */
#define CHAINS 4096                    /* of the keys of a class */
#define ATTEMPTS 2000                  /* before the owner of a directory is looked for */
#define MOMENT 50000                   /* nanoseconds between most of them */

typedef struct {
    uint64_t key[2];
    uint32_t next; /* in its chain, or in the list of free blocks; from 1, or 0 at the end */
    uint32_t users, expected; /* the ranks that use it, and those that will come */
} pool_entry;

typedef struct {
    uint32_t free, fresh; /* the first free block, and the number of blocks used so far */
    uint32_t chains[CHAINS];
    pool_entry entries[BLOCKS + 1]; /* from 1 */
} pool_class;

typedef struct {
    uint32_t owner; /* the rank that changes it, from 1; 0 if none does */
    char pad[CACHE_LINE - 4];
    pool_class classes[CLASSES];
} pool_directory;

/* The places of the blocks, from the begin of the segment. */
typedef struct {
    int64_t directory, classes, end;
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
static inline void pool_lay_out(pool_layout *p, int64_t size) {
    p->directory = segment_bytes(size);
    p->classes = class_of(size) + 1;
    p->end = p->directory +
             round_up(offsetof(pool_directory, classes) + p->classes * sizeof(pool_class),
                      1 << 21);
    for (int64_t c = 0; c < p->classes; c++) {
        int64_t most = CLASS_BYTES / (p->stride[c] = block_bytes(c));
        p->first[c] = p->end, p->blocks[c] = most < BLOCKS ? most : BLOCKS;
        p->end += p->blocks[c] * p->stride[c];
    }
}

/* Own the directory: 0, or the rank from 1 that has owned it all the time. */
static uint32_t pool_claim(pool_directory *d, uint32_t me) {
    struct timespec moment = {0, MOMENT};
    uint32_t owner = 0;
    for (int turn = 0; turn < ATTEMPTS; turn++) {
        owner = 0;
        if (__atomic_compare_exchange_n(&d->owner, &owner, me, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return 0;
        if (turn < ATTEMPTS / 2) sched_yield();
        else nanosleep(&moment, NULL);
    }
    return owner;
}

static void pool_yield(pool_directory *d) {
    __atomic_store_n(&d->owner, 0, __ATOMIC_RELEASE);
}

/* Take the directory from an owner whose process has ended. */
static void pool_break(pool_directory *d, uint32_t owner) {
    __atomic_compare_exchange_n(&d->owner, &owner, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Take a free block, in the directory that this rank owns; 0 if there is none. */
static uint32_t pool_take(pool_class *c, int64_t blocks) {
    uint32_t found = c->free;
    if (found) c->free = c->entries[found].next;
    else if (c->fresh < blocks) found = ++c->fresh;
    return found;
}

/* Find the block of a group of `size` ranks, or take one: its number from 1, or 0 if all are in
 * use. */
static uint32_t pool_open(pool_class *c, const uint64_t *key, int64_t size, int64_t blocks) {
    uint32_t *chain = c->chains + key[0] % CHAINS, found;
    for (found = *chain; found; found = c->entries[found].next) {
        const uint64_t *other = c->entries[found].key;
        if (other[0] != key[0] || other[1] != key[1]) continue;
        c->entries[found].users++, c->entries[found].expected--;
        return found;
    }
    if (!(found = pool_take(c, blocks))) return 0;
    c->entries[found] = (pool_entry){{key[0], key[1]}, *chain, 1, (uint32_t)size - 1};
    *chain = found;
    return found;
}

/* Forget the key of a block, so that no rank comes to it any more. */
static void pool_forget(pool_class *c, uint32_t number) {
    uint32_t *link = c->chains + c->entries[number].key[0] % CHAINS;
    while (*link && *link != number) link = &c->entries[*link].next;
    if (*link) *link = c->entries[number].next;
    c->entries[number].expected = 0;
}

/* Count a rank as gone: whether it was the last, whose block is forgotten. */
static int pool_count_off(pool_class *c, uint32_t number) {
    pool_entry *entry = c->entries + number;
    if (--entry->users || entry->expected) return 0;
    pool_forget(c, number);
    return 1;
}

/* Leave a block; the last rank returns its pages. Without the directory the block is lost. */
static void pool_leave(pool_directory *d, pool_class *c, uint32_t number, uint32_t me,
                       void *block, int64_t nbytes) {
    if (pool_claim(d, me)) return;
    int is_last = pool_count_off(c, number);
    pool_yield(d);
    if (!is_last || madvise(block, nbytes, MADV_REMOVE) || pool_claim(d, me)) return;
    c->entries[number].next = c->free;
    c->free = number;
    pool_yield(d);
}

#endif
