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

#define STAGING_BYTES ((int64_t)1 << 20) /* of a block; a longer message takes a longer one */
#define STAGING_KEPT 16                  /* blocks, at most */

static char *staging_blocks[STAGING_KEPT]; /* kept, or NULL */

static inline int64_t staging_length(int64_t nbytes) {
    return nbytes > STAGING_BYTES ? nbytes : STAGING_BYTES;
}

/* Memory for a message, or NULL without memory. It is mapped alone, as the heap would keep it. */
static inline char *staging_take(int64_t nbytes) {
    for (int i = STAGING_KEPT - 1; i >= 0 && nbytes <= STAGING_BYTES; i--) {
        if (!__atomic_load_n(&staging_blocks[i], __ATOMIC_RELAXED)) continue;
        char *block = __atomic_exchange_n(&staging_blocks[i], NULL, __ATOMIC_ACQUIRE);
        if (block) return block;
    }
    void *fresh = mmap(NULL, staging_length(nbytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return fresh == MAP_FAILED ? NULL : fresh;
}

/* Return the memory that was taken for a message of this length. */
static inline void staging_return(char *block, int64_t nbytes) {
    for (int i = 0; i < STAGING_KEPT && nbytes <= STAGING_BYTES; i++) {
        char *none = NULL;
        if (__atomic_load_n(&staging_blocks[i], __ATOMIC_RELAXED)) continue;
        if (__atomic_compare_exchange_n(&staging_blocks[i], &none, block, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return;
    }
    munmap(block, staging_length(nbytes));
}

#endif
