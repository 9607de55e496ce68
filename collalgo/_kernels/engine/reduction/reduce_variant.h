/* All kernels for one instruction set; included by reduce_kernels.h once for each. */

LOGICAL(boolean, uint8_t, uint8_t, VALUE, VALUE)
ARITHMETIC(uint8, uint8_t, uint8_t, VALUE, VALUE, FLOOR_FLOAT)
ARITHMETIC(uint16, uint16_t, uint16_t, VALUE, VALUE, FLOOR_FLOAT)
ARITHMETIC(uint32, uint32_t, uint32_t, VALUE, VALUE, UNSIGNED_DOUBLE)
ARITHMETIC(uint64, uint64_t, uint64_t, VALUE, VALUE, UNSIGNED)
BITWISE(band, BITWISE_AND)
BITWISE(bor, BITWISE_OR)
BITWISE(bxor, BITWISE_XOR)
SIGNED(int8, int8_t, FLOOR_FLOAT)
SIGNED(int16, int16_t, FLOOR_FLOAT)
SIGNED(int32, int32_t, FLOOR_DOUBLE)
SIGNED(int64, int64_t, FLOOR)
#ifdef LANES
HALF_KERNEL(float16_total, ADD, VALUE)
HALF_KERNEL(float16_mean, ADD, QUOTIENT)
SUM_OR_MEAN(float16, float16_total)
HALF_KERNEL(float16_prod, MULTIPLY, VALUE)
HALF_KERNEL(float16_min, MINIMUM, VALUE)
HALF_KERNEL(float16_max, MAXIMUM, VALUE)
HALF_KERNEL(float16_land, LOGICAL_AND, VALUE)
HALF_KERNEL(float16_lor, LOGICAL_OR, VALUE)
HALF_KERNEL(float16_lxor, LOGICAL_XOR, VALUE)
#else
ARITHMETIC(float16, uint16_t, float, float16_to_float, float16_from_float, QUOTIENT)
#endif
ARITHMETIC(bfloat16, uint16_t, float, bfloat16_to_float, bfloat16_from_float,
           QUOTIENT)
ARITHMETIC(float8, uint8_t, float, DECODE_FLOAT8, ENCODE_FLOAT8, QUOTIENT)
ARITHMETIC(float32, float, float, VALUE, VALUE, QUOTIENT)
ARITHMETIC(float64, double, double, VALUE, VALUE, QUOTIENT)
COMPLEX(complex64, float32, float)
COMPLEX(complex128, float64, double)
ARITHMETIC(longdouble, long double, long double, VALUE, VALUE, QUOTIENT)
COMPLEX(clongdouble, longdouble, long double)
KERNEL(time_sum, int64_t, int64_t, VALUE, VALUE, ADD_TIMES, VALUE)
KERNEL(time_max, int64_t, int64_t, VALUE, VALUE, LATEST, VALUE)

#include "exact_variant.h"

static const reduce_fn IN_VARIANT(table)[DTYPE_FAMILIES][OPS] = {
    [DTYPE_BOOL] = {BOOLEAN_ROW(boolean)},
    [DTYPE_INT8] = {SIGNED_ROW(int8), BITWISE_ROW(bytes)},
    [DTYPE_INT16] = {SIGNED_ROW(int16), BITWISE_ROW(uint16)},
    [DTYPE_INT32] = {SIGNED_ROW(int32), BITWISE_ROW(uint32)},
    [DTYPE_INT64] = {SIGNED_ROW(int64), BITWISE_ROW(uint64)},
    [DTYPE_UINT8] = {ARITHMETIC_ROW(uint8), BITWISE_ROW(bytes)},
    [DTYPE_UINT16] = {ARITHMETIC_ROW(uint16), BITWISE_ROW(uint16)},
    [DTYPE_UINT32] = {ARITHMETIC_ROW(uint32), BITWISE_ROW(uint32)},
    [DTYPE_UINT64] = {ARITHMETIC_ROW(uint64), BITWISE_ROW(uint64)},
    [DTYPE_FLOAT16] = {ARITHMETIC_ROW(float16), EXACT_ROW(float16)},
    [DTYPE_BFLOAT16] = {ARITHMETIC_ROW(bfloat16), EXACT_ROW(bfloat16)},
    [DTYPE_FLOAT32] = {ARITHMETIC_ROW(float32), EXACT_ROW(float32)},
    [DTYPE_FLOAT64] = {ARITHMETIC_ROW(float64), EXACT_ROW(float64)},
    [DTYPE_COMPLEX64] = {COMPLEX_ROW(complex64), EXACT_ROW(complex64)},
    [DTYPE_COMPLEX128] = {COMPLEX_ROW(complex128), EXACT_ROW(complex128)},
    [DTYPE_FLOAT8] = {ARITHMETIC_ROW(float8), EXACT_ROW(float8)},
    [DTYPE_LONGDOUBLE] = {ARITHMETIC_ROW(longdouble)},
    [DTYPE_CLONGDOUBLE] = {COMPLEX_ROW(clongdouble)},
    [DTYPE_DATETIME64] = {TIME_ROW},
    [DTYPE_TIMEDELTA64] = {TIME_ROW, [OP_SUM] = IN_VARIANT(time_sum)},
};

#undef VARIANT
#undef LANES
#undef WIDEN
#undef NARROW
