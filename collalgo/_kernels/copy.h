/* A copy whose speed does not depend on how the addresses lie in their pages. */
#ifndef COLLALGO_COPY_H
#define COLLALGO_COPY_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "processor.h"
#include "transport.h"

/* For long copies memcpy may use the string instruction of the processor, which on AMD is
 * ten times slower where the target lies a few bytes further in its page than the
 * source: just as NumPy's arrays lie against a page-aligned window. And what is stored
 * across two lines, as memcpy and vectors that begin anywhere do, takes up to three times
 * as long where another core has read the lines. On Intel the instruction takes lines that
 * others have read without fetching them first: with it 8 and 16 ranks took 0.8 to 0.95
 * times as long. */
#define LONG_COPY 2048

typedef uint64_t anywhere __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t in_line __attribute__((vector_size(32), aligned(32), may_alias));

/* Copy lines, four at once, to a target that begins with a line. */
static inline __attribute__((always_inline)) void copy_lines(char *to, const char *from,
                                                             int64_t nbytes) {
    for (; nbytes > 0; nbytes -= 4 * CACHE_LINE, to += 4 * CACHE_LINE, from += 4 * CACHE_LINE) {
        in_line part[8];
        for (int i = 0; i < 8; i++) part[i] = ((const anywhere *)from)[i];
        for (int i = 0; i < 8; i++) ((in_line *)to)[i] = part[i];
        __asm__ volatile("" ::: "memory"); /* or the compiler calls memcpy again */
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void copy_lines_avx2(char *to, const char *from,
                                                            int64_t nbytes) {
    copy_lines(to, from, nbytes);
}

#define SHORT_DISTANCE 64 /* that a target may not be behind its source, but for 4 GiB */

static void copy_string(char *to, const char *from, int64_t nbytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(nbytes) : : "memory");
}
#endif

static __attribute__((noinline)) void copy_long(char *to, const char *from, int64_t nbytes) {
    int64_t head = -(uintptr_t)to % CACHE_LINE;
    int64_t lines = (nbytes - head) & ~(int64_t)(4 * CACHE_LINE - 1);
    memcpy(to, from, (size_t)head);
    to += head, from += head;
#if defined(__x86_64__)
    if (copies_strings && (uint32_t)(to - from) >= SHORT_DISTANCE)
        copy_string(to, from, lines);
    else if (__builtin_cpu_supports("avx2"))
        copy_lines_avx2(to, from, lines);
    else
#endif
        copy_lines(to, from, lines);
    memcpy(to + lines, from + lines, (size_t)(nbytes - head - lines));
}

static inline void copy_bytes(void *target, const void *source, int64_t nbytes) {
    if (nbytes < LONG_COPY)
        memcpy(target, source, (size_t)nbytes);
    else
        copy_long((char *)target, (const char *)source, nbytes);
}

/* Copy whole lines past the caches; what is read of them is right once the stream ends. */
static inline void stream_lines(char *to, const char *from, int64_t nbytes) {
#if defined(__x86_64__)
    for (; nbytes > 0; nbytes -= CACHE_LINE, to += CACHE_LINE, from += CACHE_LINE) {
        __m128i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm_loadu_si128((const __m128i *)from + i);
        for (int i = 0; i < 4; i++) _mm_stream_si128((__m128i *)to + i, part[i]);
    }
#else
    copy_bytes(to, from, nbytes);
#endif
}

static inline void end_stream(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#define SHORT_STREAM 256 /* what is shorter is written into the caches */

/* A copy past the caches, for what nobody reads soon: the target is not read first. */
static inline void stream_bytes(void *target, const void *source, int64_t nbytes) {
    char *to = (char *)target;
    const char *from = (const char *)source;
    if (nbytes >= SHORT_STREAM) {
        int64_t head = -(uintptr_t)to % CACHE_LINE;
        int64_t lines = (nbytes - head) / CACHE_LINE * CACHE_LINE;
        memcpy(to, from, (size_t)head);
        stream_lines(to + head, from + head, lines);
        end_stream();
        to += head + lines, from += head + lines, nbytes -= head + lines;
    }
    memcpy(to, from, (size_t)nbytes);
}

#endif
