/* The type of a reduction kernel, and the numbers of the dtypes and ops. */
#ifndef COLLALGO_REDUCE_H
#define COLLALGO_REDUCE_H

#include <stdint.h>

enum {
    DTYPE_BOOL, DTYPE_INT8, DTYPE_INT16, DTYPE_INT32, DTYPE_INT64,
    DTYPE_UINT8, DTYPE_UINT16, DTYPE_UINT32, DTYPE_UINT64,
    DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64,
    DTYPE_COMPLEX64, DTYPE_COMPLEX128, DTYPE_FLOAT8, DTYPE_LONGDOUBLE, DTYPE_CLONGDOUBLE,
    DTYPE_DATETIME64, DTYPE_TIMEDELTA64, DTYPE_FAMILIES
};

enum {
    OP_SUM, OP_PROD, OP_MIN, OP_MAX, OP_BAND, OP_BOR, OP_BXOR,
    OP_LAND, OP_LOR, OP_LXOR, OP_EXACT_SUM, OPS
};

/* float8 arithmetic goes through float32: decode by value, encode by the upper 16
 * bits of the float32, the lowest of which is set if any bit below them was. That
 * is rounding to odd: it leaves enough bits for the second rounding to be exact. */
typedef struct {
    float decode[256];
    uint8_t encode[65536];
} float8_tables;

/* dst = op over the inputs, in their order; then divided, unless divisor is 0.
 * dst may be one of the inputs. Half and quarter precision accumulate in float32.
 * The last argument is NULL except for float8, and for an op of the user, which is behind it. */
typedef void (*reduce_fn)(void *dst, const void *const *inputs, int64_t n,
                          int64_t count, int64_t divisor, const float8_tables *tables);

#endif
