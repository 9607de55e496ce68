/* The kernels of a family of dtypes, and the ops of its row in the table, as macros. */
#ifndef COLLALGO_REDUCE_MACROS_H
#define COLLALGO_REDUCE_MACROS_H

/* Inputs are combined from the first to the last, several in one pass: one, two or four go
 * straight to the result, more through a block that stays in L1. */
#define KERNEL(name, type, wide, LOAD, STORE, COMBINE, FINISH)                        \
    static void IN_VARIANT(name)(void *dst_, const void *const *inputs, int64_t n,    \
                                 int64_t count, int64_t divisor,                      \
                                 const float8_tables *tables) {                       \
        type *dst = (type *)dst_;                                                     \
        const type *const *in = (const type *const *)inputs;                          \
        enum { BLOCK = BLOCK_BYTES / sizeof(wide) };                                  \
        wide total[BLOCK];                                                            \
        (void)tables, (void)divisor;                                                  \
        if (n == 1) {                                                                 \
            const type *a = in[0];                                                    \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < count; i++) {                                     \
                wide x = LOAD(a[i]);                                                  \
                dst[i] = (type)STORE((wide)FINISH(x));                                \
            }                                                                         \
            return;                                                                   \
        }                                                                             \
        if (n == 2) {                                                                 \
            const type *a = in[0], *b = in[1];                                        \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < count; i++) {                                     \
                wide x = LOAD(a[i]), y = LOAD(b[i]);                                  \
                x = (wide)COMBINE(x, y);                                              \
                dst[i] = (type)STORE((wide)FINISH(x));                                \
            }                                                                         \
            return;                                                                   \
        }                                                                             \
        if (n == 4) {                                                                 \
            const type *a = in[0], *b = in[1], *c = in[2], *d = in[3];                \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < count; i++) {                                     \
                wide x = LOAD(a[i]), y = LOAD(b[i]), z = LOAD(c[i]), w = LOAD(d[i]);  \
                x = (wide)COMBINE(x, y);                                              \
                x = (wide)COMBINE(x, z);                                              \
                x = (wide)COMBINE(x, w);                                              \
                dst[i] = (type)STORE((wide)FINISH(x));                                \
            }                                                                         \
            return;                                                                   \
        }                                                                             \
        for (int64_t start = 0; start < count; start += BLOCK) {                      \
            int64_t length = count - start < BLOCK ? count - start : BLOCK, k = 1;    \
            const type *a = in[0] + start;                                            \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++) total[i] = LOAD(a[i]);               \
            for (; k + 3 <= n; k += 3) {                                              \
                const type *b = in[k] + start, *c = in[k + 1] + start;                \
                const type *d = in[k + 2] + start;                                    \
                ANY_ORDER                                                             \
                for (int64_t i = 0; i < length; i++) {                                \
                    wide x = total[i], y = LOAD(b[i]), z = LOAD(c[i]), w = LOAD(d[i]);\
                    x = (wide)COMBINE(x, y);                                          \
                    x = (wide)COMBINE(x, z);                                          \
                    total[i] = (wide)COMBINE(x, w);                                   \
                }                                                                     \
            }                                                                         \
            for (; k < n; k++) {                                                      \
                const type *b = in[k] + start;                                        \
                ANY_ORDER                                                             \
                for (int64_t i = 0; i < length; i++) {                                \
                    wide y = LOAD(b[i]);                                              \
                    total[i] = (wide)COMBINE(total[i], y);                            \
                }                                                                     \
            }                                                                         \
            ANY_ORDER                                                                 \
            for (int64_t i = 0; i < length; i++)                                      \
                dst[start + i] = (type)STORE((wide)FINISH(total[i]));                 \
        }                                                                             \
    }

/* The same for float16 where it is converted a vector register at a time. */
#define HALF_KERNEL(name, COMBINE, FINISH)                                            \
    static void IN_VARIANT(name)(void *dst_, const void *const *inputs, int64_t n,    \
                                 int64_t count, int64_t divisor,                      \
                                 const float8_tables *tables) {                       \
        uint16_t *dst = (uint16_t *)dst_;                                             \
        const uint16_t *const *in = (const uint16_t *const *)inputs;                  \
        int64_t start = 0;                                                            \
        (void)tables, (void)divisor;                                                  \
        if (n == 2)                                                                   \
            for (; start + LANES <= count; start += LANES) {                          \
                float total[LANES], next[LANES];                                      \
                WIDEN(total, in[0] + start);                                          \
                WIDEN(next, in[1] + start);                                           \
                for (int64_t i = 0; i < LANES; i++) {                                 \
                    float x = (float)COMBINE(total[i], next[i]);                      \
                    total[i] = (float)FINISH(x);                                      \
                }                                                                     \
                NARROW(dst + start, total);                                           \
            }                                                                         \
        for (; start + LANES <= count; start += LANES) {                              \
            float total[LANES], next[LANES];                                          \
            WIDEN(total, in[0] + start);                                              \
            for (int64_t k = 1; k < n; k++) {                                         \
                WIDEN(next, in[k] + start);                                           \
                for (int64_t i = 0; i < LANES; i++)                                   \
                    total[i] = (float)COMBINE(total[i], next[i]);                     \
            }                                                                         \
            for (int64_t i = 0; i < LANES; i++) total[i] = (float)FINISH(total[i]);   \
            NARROW(dst + start, total);                                               \
        }                                                                             \
        for (; start < count; start++) {                                              \
            float total = float16_to_float(in[0][start]);                             \
            for (int64_t k = 1; k < n; k++) {                                         \
                float next = float16_to_float(in[k][start]);                          \
                total = (float)COMBINE(total, next);                                  \
            }                                                                         \
            dst[start] = float16_from_float((float)FINISH(total));                    \
        }                                                                             \
    }

/* A sum that is divided by a number of inputs, or not. */
#define SUM_OR_MEAN(name, total)                                                      \
    static void IN_VARIANT(name##_sum)(void *dst, const void *const *inputs, int64_t n,\
                                       int64_t count, int64_t divisor,                \
                                       const float8_tables *tables) {                 \
        if (divisor) IN_VARIANT(name##_mean)(dst, inputs, n, count, divisor, tables); \
        else IN_VARIANT(total)(dst, inputs, n, count, divisor, tables);               \
    }

#define LOGICAL(name, type, wide, LOAD, STORE)                                        \
    KERNEL(name##_land, type, wide, LOAD, STORE, LOGICAL_AND, VALUE)                  \
    KERNEL(name##_lor, type, wide, LOAD, STORE, LOGICAL_OR, VALUE)                    \
    KERNEL(name##_lxor, type, wide, LOAD, STORE, LOGICAL_XOR, VALUE)

#define ARITHMETIC(name, type, wide, LOAD, STORE, DIVIDE)                             \
    LOGICAL(name, type, wide, LOAD, STORE)                                            \
    KERNEL(name##_total, type, wide, LOAD, STORE, ADD, VALUE)                         \
    KERNEL(name##_mean, type, wide, LOAD, STORE, ADD, DIVIDE)                         \
    SUM_OR_MEAN(name, name##_total)                                                   \
    KERNEL(name##_prod, type, wide, LOAD, STORE, MULTIPLY, VALUE)                     \
    KERNEL(name##_min, type, wide, LOAD, STORE, MINIMUM, VALUE)                       \
    KERNEL(name##_max, type, wide, LOAD, STORE, MAXIMUM, VALUE)

/* Bitwise ops do not depend on the dtype: integers of all sizes share the kernels of bytes,
 * and signed integers those of unsigned ones, where the result is the same. */
#define BITWISE(name, OPERATION)                                                      \
    KERNEL(bytes_##name, uint8_t, uint8_t, VALUE, VALUE, OPERATION, VALUE)            \
    BITWISE_OF(name, 16)                                                              \
    BITWISE_OF(name, 32)                                                              \
    BITWISE_OF(name, 64)

#define BITWISE_OF(name, bits)                                                        \
    static void IN_VARIANT(uint##bits##_##name)(                                      \
        void *dst, const void *const *inputs, int64_t n, int64_t count,               \
        int64_t divisor, const float8_tables *tables) {                               \
        IN_VARIANT(bytes_##name)(dst, inputs, n, count * (bits / 8), divisor, tables);\
    }

#define SIGNED(name, type, DIVIDE)                                                    \
    KERNEL(name##_mean, type, type, VALUE, VALUE, ADD, DIVIDE)                        \
    KERNEL(name##_min, type, type, VALUE, VALUE, MINIMUM, VALUE)                      \
    KERNEL(name##_max, type, type, VALUE, VALUE, MAXIMUM, VALUE)                      \
    SUM_OR_MEAN(name, u##name##_total)

#define DECODE_FLOAT8(x) (tables->decode[x])
#define ENCODE_FLOAT8(x) float8_from_float((x), tables)

#define COMPLEX(name, part, type)                                                     \
    static void IN_VARIANT(name##_sum)(void *dst, const void *const *inputs,          \
                                       int64_t n, int64_t count, int64_t divisor,     \
                                       const float8_tables *tables) {                 \
        IN_VARIANT(part##_sum)(dst, inputs, n, 2 * count, divisor, tables);           \
    }                                                                                 \
    static void IN_VARIANT(name##_prod)(void *dst_, const void *const *inputs,        \
                                        int64_t n, int64_t count, int64_t divisor,    \
                                        const float8_tables *tables) {                \
        type *dst = (type *)dst_;                                                     \
        (void)divisor, (void)tables;                                                  \
        for (int64_t i = 0; i < 2 * count; i += 2) {                                  \
            type real = ((const type *)inputs[0])[i];                                 \
            type imag = ((const type *)inputs[0])[i + 1];                             \
            for (int64_t k = 1; k < n; k++) {                                         \
                type re = ((const type *)inputs[k])[i];                               \
                type im = ((const type *)inputs[k])[i + 1];                           \
                type product = real * re - imag * im;                                 \
                imag = real * im + imag * re;                                         \
                real = product;                                                       \
            }                                                                         \
            dst[i] = real;                                                            \
            dst[i + 1] = imag;                                                        \
        }                                                                             \
    }

#define EXACT_ROW(name) [OP_EXACT_SUM] = IN_VARIANT(name##_exact)
#define ARITHMETIC_ROW(name)                                                          \
    [OP_SUM] = IN_VARIANT(name##_sum), [OP_PROD] = IN_VARIANT(name##_prod),           \
    [OP_MIN] = IN_VARIANT(name##_min), [OP_MAX] = IN_VARIANT(name##_max),             \
    [OP_LAND] = IN_VARIANT(name##_land), [OP_LOR] = IN_VARIANT(name##_lor),           \
    [OP_LXOR] = IN_VARIANT(name##_lxor)
#define BITWISE_ROW(bits)                                                             \
    [OP_BAND] = IN_VARIANT(bits##_band), [OP_BOR] = IN_VARIANT(bits##_bor),           \
    [OP_BXOR] = IN_VARIANT(bits##_bxor)
#define SIGNED_ROW(name)                                                              \
    [OP_SUM] = IN_VARIANT(name##_sum), [OP_PROD] = IN_VARIANT(u##name##_prod),        \
    [OP_MIN] = IN_VARIANT(name##_min), [OP_MAX] = IN_VARIANT(name##_max),             \
    [OP_LAND] = IN_VARIANT(u##name##_land), [OP_LOR] = IN_VARIANT(u##name##_lor),     \
    [OP_LXOR] = IN_VARIANT(u##name##_lxor)
#define COMPLEX_ROW(name)                                                             \
    [OP_SUM] = IN_VARIANT(name##_sum), [OP_PROD] = IN_VARIANT(name##_prod)
/* The least integer is the least time, too. */
#define TIME_ROW [OP_MIN] = IN_VARIANT(int64_min), [OP_MAX] = IN_VARIANT(time_max)
/* For booleans a sum is "or" and a product is "and", as in NumPy. */
#define BOOLEAN_ROW(name)                                                             \
    [OP_SUM] = IN_VARIANT(name##_lor), [OP_PROD] = IN_VARIANT(name##_land),           \
    [OP_MIN] = IN_VARIANT(name##_land), [OP_MAX] = IN_VARIANT(name##_lor),            \
    [OP_BAND] = IN_VARIANT(name##_land), [OP_BOR] = IN_VARIANT(name##_lor),           \
    [OP_BXOR] = IN_VARIANT(name##_lxor), [OP_LAND] = IN_VARIANT(name##_land),         \
    [OP_LOR] = IN_VARIANT(name##_lor), [OP_LXOR] = IN_VARIANT(name##_lxor)

#endif
