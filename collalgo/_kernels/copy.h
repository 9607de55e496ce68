/* A copy whose speed does not depend on how the addresses lie in their pages. */
#ifndef COLLALGO_COPY_H
#define COLLALGO_COPY_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "transport.h"

/* For long copies memcpy may use the string instruction of the processor, which on AMD is
 * ten times slower where the target lies a few bytes further in its page than the
 * source: just as NumPy's arrays lie against a page-aligned window. */
#define LONG_COPY 2048
#define PAGE 4096
#define AWKWARD 32

typedef uint64_t copy_vector __attribute__((vector_size(32), aligned(1), may_alias));

static inline void copy_bytes(void *target, const void *source, int64_t nbytes) {
    char *to = (char *)target;
    const char *from = (const char *)source;
    uintptr_t further = ((uintptr_t)to - (uintptr_t)from) % PAGE;
    if (nbytes >= LONG_COPY && further - 1 < AWKWARD - 1)
        for (; nbytes >= 256; nbytes -= 256, to += 256, from += 256) {
            copy_vector block[8];
            for (int i = 0; i < 8; i++) block[i] = ((const copy_vector *)from)[i];
            for (int i = 0; i < 8; i++) ((copy_vector *)to)[i] = block[i];
            __asm__ volatile("" ::: "memory"); /* or the compiler calls memcpy again */
        }
    memcpy(to, from, (size_t)nbytes);
}

/* A copy past the caches, for what nobody reads soon: the target is not read first. */
static inline void stream_bytes(void *target, const void *source, int64_t nbytes) {
#if defined(__SSE2__)
    char *to = (char *)target;
    const char *from = (const char *)source;
    int64_t head = -(uintptr_t)to % CACHE_LINE;
    if (nbytes >= LONG_COPY) {
        memcpy(to, from, (size_t)head);
        to += head, from += head, nbytes -= head;
        for (; nbytes >= CACHE_LINE; nbytes -= CACHE_LINE) {
            __m128i part[4];
            for (int i = 0; i < 4; i++) part[i] = _mm_loadu_si128((const __m128i *)from + i);
            for (int i = 0; i < 4; i++) _mm_stream_si128((__m128i *)to + i, part[i]);
            to += CACHE_LINE, from += CACHE_LINE;
        }
        _mm_sfence();
    }
    memcpy(to, from, (size_t)nbytes);
#else
    copy_bytes(target, source, nbytes);
#endif
}

#endif
