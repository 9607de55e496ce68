/* What the processor is known for that it runs on. */
#ifndef COLLALGO_PROCESSOR_H
#define COLLALGO_PROCESSOR_H

/* Whether it copies best by its string instruction, whether it moves a whole line at once, and
 * whether it can hand a line over to the cache that all cores share: of Intel's this is known,
 * of others nothing. */
#if defined(__x86_64__)
#include <cpuid.h>

#define FAST_SHORT_STRINGS (1u << 4) /* of EDX of leaf 7: from Ice Lake on */
#define CLDEMOTE (1u << 25)          /* of ECX: servers from Sapphire Rapids on */

static int copies_strings, moves_lines, hands_over;

__attribute__((constructor)) static void know_processor(void) {
    unsigned a, b, c, d;
    __builtin_cpu_init();
    if (!__builtin_cpu_is("intel") || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    copies_strings = (d & FAST_SHORT_STRINGS) != 0;
    moves_lines = copies_strings && __builtin_cpu_supports("avx512f");
    hands_over = (c & CLDEMOTE) != 0;
}
#else
enum { copies_strings = 0, moves_lines = 0, hands_over = 0 };
#endif

#endif
