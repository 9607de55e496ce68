/* Every kernel that this processor can run, on a few hundred elements: instruction sets
 * must agree with each other and with plain arithmetic. */
#include <stdio.h>
#include <stdlib.h>

#include "reduce_kernels.h"

#define COUNT 1031
#define INPUTS 5

static uint16_t halves[INPUTS][COUNT], half_sum[COUNT];
static float floats[INPUTS][COUNT], float_sum[COUNT];
static int32_t integers[INPUTS][COUNT], integer_sum[COUNT];

static void check(int right, const char *variant, const char *what, int64_t n, int64_t i) {
    if (right) return;
    fprintf(stderr, "%s: wrong %s of %ld inputs at %ld\n", variant, what, (long)n, (long)i);
    exit(1);
}

static void sums(const char *variant, int64_t n) {
    reduce_table table = reduce_variant(variant);
    const void *in[3][INPUTS];
    for (int64_t k = 0; k < n; k++)
        in[0][k] = halves[k], in[1][k] = floats[k], in[2][k] = integers[k];
    table[DTYPE_FLOAT16][OP_SUM](half_sum, in[0], n, COUNT, 0, NULL);
    table[DTYPE_FLOAT32][OP_SUM](float_sum, in[1], n, COUNT, 0, NULL);
    table[DTYPE_INT32][OP_SUM](integer_sum, in[2], n, COUNT, 0, NULL);
    for (int64_t i = 0; i < COUNT; i++) {
        float half = float16_to_float(halves[0][i]), single = floats[0][i];
        int32_t integer = integers[0][i];
        for (int64_t k = 1; k < n; k++) {
            half += float16_to_float(halves[k][i]);
            single += floats[k][i];
            integer += integers[k][i];
        }
        check(half_sum[i] == float16_from_float(half), variant, "float16", n, i);
        check(float_sum[i] == single, variant, "float32", n, i);
        check(integer_sum[i] == integer, variant, "int32", n, i);
    }
}

int main(void) {
    const char *variants[] = {"baseline", "avx2", "avx512"};
    for (int64_t k = 0; k < INPUTS; k++)
        for (int64_t i = 0; i < COUNT; i++) {
            halves[k][i] = (uint16_t)((i * 61 + k * 977) % 0x7c00 | (i % 2) << 15);
            floats[k][i] = (float)(i - 7 * k) / 3;
            integers[k][i] = (int32_t)(i * 3 - k);
        }
    for (int v = 0; v < 3; v++)
        for (int64_t n = 1; reduce_variant(variants[v]) && n <= INPUTS; n++)
            sums(variants[v], n);
    puts("all right");
    return 0;
}
