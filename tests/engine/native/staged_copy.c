/* Staged copies are correct in every way of writing; near readers that were taken for far are
 * measured to be near, and for far readers the copies go past the caches. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "copy.h"

static int64_t streamed; /* the parts written past the caches */
#define stream_bytes(...) (streamed++, stream_bytes(__VA_ARGS__))

#include "staged_copy.h"

#define LONGEST (2 * BUFFERED_BYTES)
#define PARTS 100000
#define NEW_PARTS 50

static char from[LONGEST + 64], to[LONGEST + 64];

static void expect(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

static void stage_all_lengths(endpoint *e, double line_ticks) {
    for (int64_t nbytes = 0; nbytes <= LONGEST; nbytes += 1 + nbytes / 3)
        for (int64_t shift = 0; shift < 64; shift += 7) {
            for (int64_t i = 0; i < LONGEST; i++) from[i] = (char)rand();
            memset(to, 0, sizeof to);
            e->staging.line_ticks = line_ticks;
            stage(&e->staging, to + shift, from + 3, nbytes);
            expect(!memcmp(to + shift, from + 3, (size_t)nbytes), "all bytes arrive");
            for (int64_t i = shift + nbytes; i < LONGEST + 64; i++)
                expect(!to[i], "nothing is written behind them");
        }
}

static void copy_all_lengths(void) {
    for (int64_t nbytes = 0; nbytes <= LONGEST; nbytes += 1 + nbytes / 5)
        for (int64_t shift = 0; shift < 64; shift += 7) {
            for (int64_t i = 0; i < LONGEST; i++) from[i] = (char)rand();
            memset(to, 0, sizeof to);
            copy_bytes(to + shift, from + 3, nbytes);
            expect(!memcmp(to + shift, from + 3, (size_t)nbytes), "all bytes are copied");
            for (int64_t i = shift + nbytes; i < LONGEST + 64; i++)
                expect(!to[i], "nothing is copied behind them");
        }
}

/* Copy and stage in every way that this processor can run. */
static void try_all_ways(endpoint *e) {
#if defined(__x86_64__)
    int chosen[] = {copies_strings, moves_lines};
    int has_lines = __builtin_cpu_supports("avx512f") != 0;
    for (copies_strings = 0; copies_strings < 2; copies_strings++)
        for (moves_lines = 0; moves_lines <= has_lines; moves_lines++) {
            stage_all_lengths(e, 0);
            copy_all_lengths();
        }
    copies_strings = chosen[0], moves_lines = chosen[1];
#else
    stage_all_lengths(e, 0);
    copy_all_lengths();
#endif
}

/* The number of staged parts up to the first measured one. */
static int64_t parts_until_measured(endpoint *e, double line_ticks, int64_t nbytes) {
    int64_t parts = 0;
    e->staging.staged_parts = 0;
    e->staging.line_ticks = line_ticks;
    for (; e->staging.line_ticks == line_ticks && parts < PARTS; parts++)
        stage(&e->staging, to, from, nbytes);
    return parts;
}

/* Stage parts whose pages are mapped by a fault. */
static void stage_new_pages(endpoint *e) {
    char *pages = mmap(NULL, NEW_PARTS * LONGEST, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(pages != MAP_FAILED, "there is memory");
    e->staging.line_ticks = 0;
    for (int64_t part = 0; part < NEW_PARTS; part++)
        stage(&e->staging, to, pages + part * LONGEST, LONGEST);
    munmap(pages, NEW_PARTS * LONGEST);
}

int main(void) {
    static endpoint e;
    try_all_ways(&e);
    expect(!streamed, "near parts are written into the caches");
    stage_all_lengths(&e, FARTHEST);
    expect(streamed > 0, "far parts are written past them");
    expect(parts_until_measured(&e, -1, BUFFERED_BYTES) == 1, "near long parts are measured");
    expect(parts_until_measured(&e, -1, MEASURABLE_BYTES) == MEASURE_EVERY,
           "of near short parts some are measured");
    double far = FARTHEST + 1; /* changed by any measured part */
    expect(parts_until_measured(&e, far, LONGEST) == MEASURE_EVERY,
           "of far parts some are measured");
    expect(parts_until_measured(&e, far, MEASURABLE_BYTES - 1) == PARTS,
           "the shortest parts are never measured");
#ifndef __SANITIZE_ADDRESS__ /* its checks take as long as a far line */
    e.staging.line_ticks = FARTHEST;
    int64_t parts = 0;
    for (; e.staging.line_ticks >= FAR && parts < PARTS; parts++) {
        stage(&e.staging, to, from, MEASURABLE_BYTES);
        expect(!memcmp(to, from, MEASURABLE_BYTES), "all bytes arrive");
    }
    expect(parts < PARTS, "parts that are near again are written into the caches");
    expect(parts > MEASURE_EVERY, "a single part does not decide");
    int64_t tries = 0; /* another process may have taken the core, or the caches */
    do
        stage_new_pages(&e);
    while (e.staging.line_ticks >= FAR && ++tries < 20);
    expect(e.staging.line_ticks < FAR, "a slow source does not count as a far target");
#endif
    puts("all right");
    return 0;
}
