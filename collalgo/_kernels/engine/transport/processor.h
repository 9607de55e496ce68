/* Properties of the processor, looked up once. */
#ifndef COLLALGO_PROCESSOR_H
#define COLLALGO_PROCESSOR_H

/* Whether the string instruction copies fastest, whether one instruction moves a whole cache
 * line, and whether a line can be demoted to the shared cache. Known for Intel only. */
#if defined(__x86_64__)
#include <cpuid.h>

#define FAST_SHORT_STRINGS (1u << 4) /* of EDX of leaf 7: from Ice Lake on */
#define CLDEMOTE (1u << 25)          /* of ECX: servers from Sapphire Rapids on */

static int copies_strings, moves_lines, demotes_lines;

__attribute__((constructor)) static void detect_processor(void) {
    unsigned a, b, c, d;
    __builtin_cpu_init();
    if (!__builtin_cpu_is("intel") || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    copies_strings = (d & FAST_SHORT_STRINGS) != 0;
    moves_lines = copies_strings && __builtin_cpu_supports("avx512f");
    demotes_lines = (c & CLDEMOTE) != 0;
}
#else
enum { copies_strings = 0, moves_lines = 0, demotes_lines = 0 };
#endif

#endif
