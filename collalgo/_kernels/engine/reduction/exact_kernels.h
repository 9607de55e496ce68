/* Exact sums of floats, rounded once: the kernels of exact_variant.h as macros.
 *
 * They are the bits of math.fsum: the order of the inputs does not matter. Most sums of short
 * floats are exact in a double, which the exponents of a block show. Otherwise a sum is kept as
 * two doubles, of which the second collects the rounding errors of the first; where that has
 * errors of its own, the sum is made in limbs. */

#ifndef COLLALGO_EXACT_KERNELS_H
#define COLLALGO_EXACT_KERNELS_H

#include "exact_total.h"

/* Elements whose sums are kept in L1. */
#define EXACT_BLOCK 256
/* Inputs of one sum in a double of the floats of 16 and 8 bits, whatever their exponents. */
#define EXACT_INPUTS 4096
/* Inputs that the plain kernel adds where that is exact. */
#define PLAIN_INPUTS 64

#define NAN_DOUBLE bits_double((uint64_t)0xfff << 51)
#define NAN_FLOAT bits_float(0x7fc00000)
/* A zero is positive, and a NaN always the same, as their signs would tell the order. */
#define CANONICAL(x, nan) ((x) == (x) ? (x) + 0 : (nan))

/* Add x to the sum of s and e; bad is set if e had an error. */
#define CASCADE(s, e, bad, x)                                                         \
    {                                                                                 \
        double sum = s + x, other = sum - s;                                          \
        double error = (s - (sum - other)) + (x - other), total = e + error;          \
        bad |= (double_bits(total - e) ^ double_bits(error)) |                        \
               (double_bits(total - error) ^ double_bits(e));                         \
        s = sum;                                                                      \
        e = total;                                                                    \
    }

/* The sums of a block of any floats: rounded to nearest, or to odd. */
#define EXACT_SUMS(name, type, LOAD, IS_ODD, ADD_UP)                                  \
    static void IN_VARIANT(name##_sums)(                                              \
        const type *const *in, int64_t n, int64_t start, int64_t length,              \
        double *sums, const float8_tables *tables) {                                  \
        double errors[EXACT_BLOCK];                                                   \
        uint64_t bad[EXACT_BLOCK], any = 0;                                           \
        int64_t k = 1;                                                                \
        (void)tables;                                                                 \
        for (int64_t i = 0; i < length; i++) {                                        \
            sums[i] = (double)LOAD(in[0][start + i]);                                 \
            errors[i] = 0;                                                            \
            bad[i] = 0;                                                               \
        }                                                                             \
        for (; k + 2 <= n; k += 2) {                                                  \
            const type *b = in[k] + start, *c = in[k + 1] + start;                    \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++) {                                    \
                double s = sums[i], e = errors[i];                                    \
                double x = (double)LOAD(b[i]), y = (double)LOAD(c[i]);                \
                uint64_t wrong = bad[i];                                              \
                CASCADE(s, e, wrong, x)                                               \
                CASCADE(s, e, wrong, y)                                               \
                sums[i] = s;                                                          \
                errors[i] = e;                                                        \
                bad[i] = wrong;                                                       \
            }                                                                         \
        }                                                                             \
        for (; k < n; k++) {                                                          \
            const type *b = in[k] + start;                                            \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++) {                                    \
                double s = sums[i], e = errors[i], x = (double)LOAD(b[i]);            \
                uint64_t wrong = bad[i];                                              \
                CASCADE(s, e, wrong, x)                                               \
                sums[i] = s;                                                          \
                errors[i] = e;                                                        \
                bad[i] = wrong;                                                       \
            }                                                                         \
        }                                                                             \
        for (int64_t i = 0; i < length; i++) {                                        \
            sums[i] = ADD_UP(sums[i], errors[i]);                                     \
            any |= bad[i];                                                            \
        }                                                                             \
        if (!any) return;                                                             \
        for (int64_t i = 0; i < length; i++) {                                        \
            exact_total total;                                                        \
            if (!bad[i]) continue;                                                    \
            begin_total(&total);                                                      \
            for (k = 0; k < n; k++)                                                   \
                add_to_total(&total, (double)LOAD(in[k][start + i]));                 \
            sums[i] = value_of_total(&total, IS_ODD);                                 \
        }                                                                             \
    }

/* The plain sums of a block, which are exact in doubles. */
#define PLAIN_SUMS(name, type, LOAD)                                                  \
    static void IN_VARIANT(name##_plain_sums)(                                        \
        const type *const *in, int64_t n, int64_t start, int64_t length,              \
        double *sums, const float8_tables *tables) {                                  \
        const type *a = in[0] + start;                                                \
        int64_t k = 1;                                                                \
        (void)tables;                                                                 \
        ANY_ORDER                                                                     \
        for (int64_t i = 0; i < length; i++) sums[i] = (double)LOAD(a[i]);            \
        for (; k + 3 <= n; k += 3) {                                                  \
            const type *b = in[k] + start, *c = in[k + 1] + start;                    \
            const type *d = in[k + 2] + start;                                        \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++) {                                    \
                double x = (double)LOAD(b[i]), y = (double)LOAD(c[i]);                \
                sums[i] += (x + y) + (double)LOAD(d[i]);                              \
            }                                                                         \
        }                                                                             \
        for (; k < n; k++) {                                                          \
            const type *b = in[k] + start;                                            \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++) sums[i] += (double)LOAD(b[i]);       \
        }                                                                             \
    }

/* The same of float16, converted a vector register at a time. */
#define PLAIN_HALF_SUMS                                                               \
    static void IN_VARIANT(float16_plain_sums)(                                       \
        const uint16_t *const *in, int64_t n, int64_t start, int64_t length,          \
        double *sums, const float8_tables *tables) {                                  \
        (void)tables;                                                                 \
        for (int64_t i = 0; i < length; i++) sums[i] = 0;                             \
        for (int64_t k = 0; k < n; k++) {                                             \
            float wide[EXACT_BLOCK];                                                  \
            int64_t i = 0;                                                            \
            for (; i + LANES <= length; i += LANES) WIDEN(wide + i, in[k] + start + i);\
            for (; i < length; i++) wide[i] = float16_to_float(in[k][start + i]);     \
            for (i = 0; i < length; i++) sums[i] += (double)wide[i];                  \
        }                                                                             \
    }

/* The bits that a sum has more than one float: the powers of two that the exponents of a block
 * span, and those of the number of inputs. INT64_MAX if there are infinities or NaNs. The
 * exponents are the bits of the magnitudes above a place. */
#define SPANNED(name, type, bits_of, BITS, place, infinity)                           \
    static int64_t IN_VARIANT(name##_spanned)(const type *const *in, int64_t n,       \
                                              int64_t start, int64_t length) {        \
        const bits_of none = (bits_of)-1;                                             \
        bits_of high = 0, low = none;                                                 \
        for (int64_t k = 0; k < n; k++) {                                             \
            const type *a = in[k] + start;                                            \
            for (int64_t i = 0; i < length; i++) {                                    \
                bits_of bits = BITS(a[i]) & (none >> 1), less = (bits_of)(bits - 1);  \
                high = bits > high ? bits : high;                                     \
                low = less < low ? less : low;                                        \
            }                                                                         \
        }                                                                             \
        if (high >= infinity) return INT64_MAX;                                       \
        int64_t least = low == none ? high >> place : (low + 1) >> place;             \
        least += least == 0; /* as those of subnormal values */                       \
        return (high >> place) - least + 64 - __builtin_clzll((uint64_t)n - 1);       \
    }

/* The bits of a float with one zero and one NaN. */
#define CANONICAL_OF_16(x, infinity, nan) \
    ((x) == 0x8000 ? 0 : ((x) & 0x7fff) > (infinity) ? (nan) : (x))
#define CANONICAL_FLOAT16(x) CANONICAL_OF_16(x, 0x7c00, 0x7e00)
#define CANONICAL_BFLOAT16(x) CANONICAL_OF_16(x, 0x7f80, 0x7fc0)
#define CANONICAL_FLOAT(x) CANONICAL(x, NAN_FLOAT)
#define CANONICAL_DOUBLE(x) CANONICAL(x, NAN_DOUBLE)
#define CANONICAL_FLOAT8(x) ENCODE_FLOAT8(CANONICAL_FLOAT(DECODE_FLOAT8(x)))

/* Round the sums of a block. */
#define EACH_OF_BLOCK(type, ROUND)                                                    \
    {                                                                                 \
        ANY_ORDER                                                                     \
        for (int64_t i = 0; i < length; i++) to[i] = (type)ROUND(sums[i]);            \
    }
#define LANES_OF_BLOCK(type, ROUND)                                                   \
    {                                                                                 \
        float wide[EXACT_BLOCK];                                                      \
        int64_t i = 0;                                                                \
        ANY_ORDER                                                                     \
        for (int64_t k = 0; k < length; k++) wide[k] = (float)ROUND(sums[k]);         \
        for (; i + LANES <= length; i += LANES) NARROW(to + i, wide + i);             \
        for (; i < length; i++) to[i] = float16_from_float(wide[i]);                  \
    }

/* The sum of two inputs, which has a single rounding anyway, in one pass: loads of memory that
 * another core has written overlap. */
#define PAIR(name, type, wide, LOAD, STORE, nan)                                      \
    static void IN_VARIANT(name##_pair)(type *dst, const type *a, const type *b,      \
                                        int64_t count, const float8_tables *tables) { \
        (void)tables;                                                                 \
        ANY_ORDER                                                                     \
        for (int64_t i = 0; i < count; i++) {                                         \
            wide x = LOAD(a[i]), y = LOAD(b[i]);                                      \
            x += y;                                                                   \
            dst[i] = (type)STORE((wide)CANONICAL(x, nan));                            \
        }                                                                             \
    }
#define PAIR_OF_HALVES                                                                \
    static void IN_VARIANT(float16_pair)(uint16_t *dst, const uint16_t *a,            \
                                         const uint16_t *b, int64_t count,            \
                                         const float8_tables *tables) {               \
        int64_t start = 0;                                                            \
        (void)tables;                                                                 \
        for (; start + LANES <= count; start += LANES) {                              \
            float total[LANES], next[LANES];                                          \
            WIDEN(total, a + start);                                                  \
            WIDEN(next, b + start);                                                   \
            for (int64_t i = 0; i < LANES; i++) {                                     \
                float x = total[i] + next[i];                                         \
                total[i] = CANONICAL(x, NAN_FLOAT);                                   \
            }                                                                         \
            NARROW(dst + start, total);                                               \
        }                                                                             \
        for (; start < count; start++) {                                              \
            float x = float16_to_float(a[start]) + float16_to_float(b[start]);        \
            dst[start] = float16_from_float(CANONICAL(x, NAN_FLOAT));                 \
        }                                                                             \
    }

/* An exact sum or its mean: NARROW_SUM rounds a sum once, NARROW_MEAN divides it as the plain
 * kernel does. Two inputs have a single rounding anyway. */
#define EXACT(name, type, NARROW_BLOCK, NARROW_SUM, NARROW_MEAN, CANONICALLY)         \
    static void IN_VARIANT(name##_exact)(void *dst_, const void *const *inputs,       \
                                         int64_t n, int64_t count, int64_t divisor,   \
                                         const float8_tables *tables) {               \
        type *dst = (type *)dst_;                                                     \
        const type *const *in = (const type *const *)inputs;                          \
        double sums[EXACT_BLOCK];                                                     \
        if (n == 2 && !divisor) {                                                     \
            IN_VARIANT(name##_pair)(dst, in[0], in[1], count, tables);                \
            return;                                                                   \
        }                                                                             \
        for (int64_t start = 0; start < count; start += EXACT_BLOCK) {                \
            int64_t length = count - start < EXACT_BLOCK ? count - start : EXACT_BLOCK;\
            type *to = dst + start;                                                   \
            if (n <= 2 ||                                                             \
                !IN_VARIANT(name##_made)(in, n, start, length, sums, tables)) {       \
                const void *at[PLAIN_INPUTS];                                         \
                for (int64_t k = 0; k < n; k++) at[k] = in[k] + start;                \
                IN_VARIANT(name##_sum)(to, at, n, length, divisor, tables);           \
            } else if (divisor) NARROW_BLOCK(type, NARROW_MEAN)                         \
            else NARROW_BLOCK(type, NARROW_SUM)                                       \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++) to[i] = (type)CANONICALLY(to[i]);    \
        }                                                                             \
    }

#define ODD(x) IN_VARIANT(odd_float)(x)
#define MEAN(x) QUOTIENT((float)(x))
#define SUM_OF_FLOAT16(x) float16_from_float(ODD(x))
#define MEAN_OF_FLOAT16(x) float16_from_float(MEAN(x))
#define SUM_OF_BFLOAT16(x) bfloat16_from_float(ODD(x))
#define MEAN_OF_BFLOAT16(x) bfloat16_from_float(MEAN(x))
#define SUM_OF_FLOAT8(x) ENCODE_FLOAT8(ODD(x))
#define MEAN_OF_FLOAT8(x) ENCODE_FLOAT8(MEAN(x))
#define SUM_OF_FLOAT32(x) ((float)(x))

/* Make the sums of a block, unless those of the plain kernel are exact: whether they are made.
 * The floats have one sign, MANTISSA and spanned bits, of 24 in a float and 53 in a double. */
#define SPANNED_SUMS(name, type, mantissa)                                            \
    static int IN_VARIANT(name##_made)(                                               \
        const type *const *in, int64_t n, int64_t start, int64_t length,              \
        double *sums, const float8_tables *tables) {                                  \
        int64_t spanned = IN_VARIANT(name##_spanned)(in, n, start, length);           \
        if (n <= PLAIN_INPUTS && spanned <= 24 - mantissa) return 0;                  \
        if (spanned <= 53 - mantissa)                                                 \
            IN_VARIANT(name##_plain_sums)(in, n, start, length, sums, tables);        \
        else IN_VARIANT(name##_sums)(in, n, start, length, sums, tables);             \
        return 1;                                                                     \
    }
/* The same of floats whose exponents differ so little that a double has room. */
#define SMALL_SUMS(name, type)                                                        \
    static int IN_VARIANT(name##_made)(                                               \
        const type *const *in, int64_t n, int64_t start, int64_t length,              \
        double *sums, const float8_tables *tables) {                                  \
        if (n <= EXACT_INPUTS)                                                        \
            IN_VARIANT(name##_plain_sums)(in, n, start, length, sums, tables);        \
        else IN_VARIANT(name##_sums)(in, n, start, length, sums, tables);             \
        return 1;                                                                     \
    }
#define CASCADED_SUMS(name, type)                                                     \
    static int IN_VARIANT(name##_made)(                                               \
        const type *const *in, int64_t n, int64_t start, int64_t length,              \
        double *sums, const float8_tables *tables) {                                  \
        IN_VARIANT(name##_sums)(in, n, start, length, sums, tables);                  \
        return 1;                                                                     \
    }

#define COMPLEX_EXACT(name, part)                                                     \
    static void IN_VARIANT(name##_exact)(void *dst, const void *const *inputs,        \
                                         int64_t n, int64_t count, int64_t divisor,   \
                                         const float8_tables *tables) {               \
        IN_VARIANT(part##_exact)(dst, inputs, n, 2 * count, divisor, tables);         \
    }

#endif
