/* Copies whose speed does not depend on the offsets of the addresses in their pages. */
#ifndef COLLALGO_COPY_H
#define COLLALGO_COPY_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "processor.h"
#include "transport.h"

/* For long copies memcpy may use the string instruction of the processor. On AMD it is ten
 * times slower if the offset of the target in its page is a few bytes larger than that of the
 * source, as between NumPy's arrays and a page-aligned window. A store across two lines, as by
 * memcpy and unaligned vectors, takes up to three times as long if another core has read the
 * lines. On Intel the string instruction takes ownership of such lines without a read: with it
 * 8 and 16 ranks took 0.8 to 0.95 times as long. Shorter copies move whole lines there: two
 * ranks took messages of 512 B and 1 KiB 0.8 times as long as by memcpy. */
#define LONG_COPY 2048
#define LINES_COPY 256

/* The hardware prefetcher works within one page. On Intel the lines that another core has
 * written arrive sooner if several pages are read in parallel: two ranks took broadcasts of
 * 128 KiB to 1 MiB 0.83 to 0.94 times as long. */
#define PAGE 4096
#define PAGES 4 /* at once */
#define PAGES_COPY (PAGES * PAGE)

typedef uint64_t anywhere __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t in_line __attribute__((vector_size(32), aligned(32), may_alias));

/* Copy lines, four at a time, to an aligned target. */
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

/* Copy `pages` pages in parallel, `lines` lines of each at a time, to an aligned target. */
__attribute__((target("avx512f"), always_inline)) static inline void
copy_interleaved(char *to, const char *from, int64_t length, int pages, int lines) {
    for (int64_t at = 0; at < length; at += lines * CACHE_LINE) {
        __m512i part[8];
        for (int i = 0; i < pages * lines; i++)
            part[i] = _mm512_loadu_si512(from + at + i / lines * PAGE + i % lines * CACHE_LINE);
        for (int i = 0; i < pages * lines; i++)
            _mm512_store_si512(to + at + i / lines * PAGE + i % lines * CACHE_LINE, part[i]);
        __asm__ volatile("" ::: "memory"); /* or the compiler calls memcpy again */
    }
}

__attribute__((target("avx512f"))) static void copy_lines_avx512(char *to, const char *from,
                                                                 int64_t nbytes) {
    copy_interleaved(to, from, nbytes, 1, 4);
}

__attribute__((target("avx512f"))) static void copy_pages(char *to, const char *from,
                                                          int64_t nbytes) {
    for (; nbytes > 0; nbytes -= PAGES_COPY, to += PAGES_COPY, from += PAGES_COPY)
        copy_interleaved(to, from, PAGE, PAGES, 2);
}

#define SHORT_DISTANCE 64 /* from source to target, modulo 4 GiB, that is slow to copy */

static inline void copy_string(char *to, const char *from, int64_t nbytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(nbytes) : : "memory");
}
#endif

/* Copy a multiple of four lines to an aligned target. */
static inline void copy_whole_lines(char *to, const char *from, int64_t nbytes) {
#if defined(__x86_64__)
    if (moves_lines && nbytes < LONG_COPY)
        copy_lines_avx512(to, from, nbytes);
    else if (copies_strings && (uint32_t)(to - from) >= SHORT_DISTANCE)
        copy_string(to, from, nbytes);
    else if (__builtin_cpu_supports("avx2"))
        copy_lines_avx2(to, from, nbytes);
    else
#endif
        copy_lines(to, from, nbytes);
}

static __attribute__((noinline)) void copy_long(char *to, const char *from, int64_t nbytes,
                                                int in_order) {
    int64_t head = -(uintptr_t)to % CACHE_LINE;
    memcpy(to, from, (size_t)head);
    to += head, from += head, nbytes -= head;
#if defined(__x86_64__)
    if (moves_lines && !in_order) {
        int64_t pages = nbytes / PAGES_COPY * PAGES_COPY;
        copy_pages(to, from, pages);
        to += pages, from += pages, nbytes -= pages;
    }
#endif
    int64_t lines = nbytes & ~(int64_t)(4 * CACHE_LINE - 1);
    copy_whole_lines(to, from, lines);
    memcpy(to + lines, from + lines, (size_t)(nbytes - lines));
}

static inline void copy_either(char *to, const char *from, int64_t nbytes, int in_order) {
    if (nbytes == 0) return; /* of an empty array the address may be NULL */
    if (nbytes < (moves_lines ? LINES_COPY : LONG_COPY))
        memcpy(to, from, (size_t)nbytes);
    else
        copy_long(to, from, nbytes, in_order);
}

static inline void copy_bytes(void *target, const void *source, int64_t nbytes) {
    copy_either((char *)target, (const char *)source, nbytes, 0);
}

/* The same without parallel pages: for sources in the caches of this core, and for targets in
 * no cache of it, which the string instruction does not read. */
static inline void copy_in_order(void *target, const void *source, int64_t nbytes) {
    copy_either((char *)target, (const char *)source, nbytes, 1);
}

/* Copy whole lines past the caches; they may be read after `end_stream`. */
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

#define SHORT_STREAM 256 /* the shortest copy past the caches */

/* Copy past the caches, for a target that is not read soon; its lines are not read first. */
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
    copy_either(to, from, nbytes, 1);
}

#endif
