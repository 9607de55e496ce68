/* A reduction with several targets writes the same to each, through the caches or past them,
 * also over an input, and nothing behind it. */
#include <stdio.h>
#include <stdlib.h>

#include "reduce_kernels.h"
#include "reduce_forward.h"

#define LONGEST 12000 /* bytes */
#define MOST 4
#define BEHIND 16      /* elements */
#define ROW 3072       /* elements: whole lines, with room for a shift and BEHIND */

typedef void reduce_forward_fn(const reduction *r, char **targets, int64_t count,
                               int64_t nbytes);

static _Alignas(CACHE_LINE) int32_t memory[2 * MOST][ROW];

static void expect(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

static int32_t value(int64_t input, int64_t i) {
    return (int32_t)(1000 * input + i % 977 + 1);
}

/* Reduce n inputs into n targets, each shifted by some elements from the begin of a line. */
static void try(reduce_forward_fn *run, int64_t n, int64_t nbytes, const int64_t *shifts,
                int in_place) {
    const void *inputs[MOST];
    char *targets[MOST];
    int64_t count = nbytes / (int64_t)sizeof(int32_t);
    memset(memory, 0, sizeof memory);
    for (int64_t k = 0; k < n; k++) {
        int32_t *input = memory[k] + shifts[k];
        int32_t *target = in_place ? input : memory[MOST + k] + shifts[k];
        for (int64_t i = 0; i < count; i++) input[i] = value(k, i);
        inputs[k] = input, targets[k] = (char *)target;
    }
    reduction r = {table_baseline[DTYPE_INT32][OP_SUM], NULL, inputs, n, sizeof(int32_t), 0};
    run(&r, targets, n, nbytes);
    for (int64_t k = 0; k < n; k++) {
        const int32_t *target = memory[in_place ? k : MOST + k] + shifts[k];
        for (int64_t i = 0; i < count; i++) {
            int32_t sum = 0;
            for (int64_t j = 0; j < n; j++) sum += value(j, i);
            expect(target[i] == sum, "all get the sum");
        }
        for (int64_t i = count; i < count + BEHIND; i++)
            expect(!target[i], "nothing is written behind it");
    }
}

int main(void) {
    static const int64_t alike[MOST] = {0}, shifted[MOST] = {5, 5, 5, 5};
    static const int64_t different[MOST] = {0, 3, 7, 16};
    static const int64_t *const shifts[] = {alike, shifted, different};
    static reduce_forward_fn *const ways[] = {reduce_forward, reduce_forward_streamed};
    for (int way = 0; way < 2; way++)
        for (int s = 0; s < 3; s++)
            for (int64_t n = 2; n <= MOST; n++)
                for (int64_t nbytes = 0; nbytes <= LONGEST; nbytes += 4 + nbytes / 12 * 4)
                    for (int in_place = 0; in_place < 2; in_place++)
                        try(ways[way], n, nbytes, shifts[s], in_place);
    puts("all right");
    return 0;
}
