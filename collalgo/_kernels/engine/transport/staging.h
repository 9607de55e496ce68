/* The memory of messages of other hosts that are reduced from it, or that replace what is
 * still being sent.
 *
 * All channels of a process share it: a channel that is idle keeps none. New pages take longer
 * than a message on a fast link, so some blocks are kept for the next messages, the last one that
 * was returned first, as it may still be in the caches. Threads exchange whole blocks, so that
 * none waits for another. */
#ifndef COLLALGO_STAGING_H
#define COLLALGO_STAGING_H

#include <stdint.h>
#include <stddef.h>
#include <sys/mman.h>

#define STAGING_MOST 16 /* blocks that are kept of a length, at most */

/* Blocks of one length, of which some are kept; the others are NULL. */
typedef struct {
    int64_t bytes, kept;
    char *blocks[STAGING_MOST];
} staging_blocks;

/* Most parts of messages have 1 MiB at most, some 8 MiB; a longer one is mapped for itself. */
static staging_blocks staging_lengths[] = {{(int64_t)1 << 20, 16}, {(int64_t)1 << 23, 2}};
static staging_blocks *const staging_end =
    staging_lengths + sizeof staging_lengths / sizeof *staging_lengths;

/* The blocks for a message, or the end if it is too long. */
static inline staging_blocks *staging_blocks_for(int64_t nbytes) {
    staging_blocks *found = staging_lengths;
    while (found < staging_end && found->bytes < nbytes) found++;
    return found;
}

/* Memory for a message, or NULL without memory. It is mapped alone, as the heap would keep it. */
static inline char *staging_take(int64_t nbytes) {
    staging_blocks *from = staging_blocks_for(nbytes);
    int is_longer = from == staging_end;
    for (int64_t i = is_longer ? -1 : from->kept - 1; i >= 0; i--) {
        if (!__atomic_load_n(&from->blocks[i], __ATOMIC_RELAXED)) continue;
        char *block = __atomic_exchange_n(&from->blocks[i], NULL, __ATOMIC_ACQUIRE);
        if (block) return block;
    }
    void *fresh = mmap(NULL, is_longer ? nbytes : from->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return fresh == MAP_FAILED ? NULL : fresh;
}

/* Return the memory that was taken for a message of this length. */
static inline void staging_return(char *block, int64_t nbytes) {
    staging_blocks *to = staging_blocks_for(nbytes);
    int is_longer = to == staging_end;
    for (int64_t i = 0; !is_longer && i < to->kept; i++) {
        char *none = NULL;
        if (__atomic_load_n(&to->blocks[i], __ATOMIC_RELAXED)) continue;
        if (__atomic_compare_exchange_n(&to->blocks[i], &none, block, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return;
    }
    munmap(block, is_longer ? nbytes : to->bytes);
}

#endif
