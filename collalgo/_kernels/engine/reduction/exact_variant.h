/* Exact sums of floats for one instruction set; included by reduce_variant.h. */

/* A double rounded to odd as a float, which then can be rounded to a shorter one: any of the bits
 * that a float has no room for sets its last bit. */
static inline float IN_VARIANT(odd_float)(double x) {
    uint64_t bits = double_bits(x), rest = ((uint64_t)1 << 29) - 1;
    return (float)bits_double((bits | ((bits & rest) + rest)) & ~rest);
}

/* The sum of two doubles rounded to odd: the error moves an even result towards the sum. */
static inline double IN_VARIANT(odd_sum)(double a, double b) {
    double sum = a + b, other = sum - a;
    double error = (a - (sum - other)) + (b - other);
    uint64_t bits = double_bits(sum), sign = (bits ^ double_bits(error)) >> 63;
    uint64_t odd = bits & 1 ? bits : bits + 1 - 2 * sign;
    return bits_double(error == 0 ? bits : odd);
}

#ifdef LANES
PLAIN_HALF_SUMS
#else
PLAIN_SUMS(float16, uint16_t, float16_to_float)
#endif
EXACT_SUMS(float16, uint16_t, float16_to_float, 1, IN_VARIANT(odd_sum))
SMALL_SUMS(float16, uint16_t)
#ifdef LANES
PAIR_OF_HALVES
EXACT(float16, uint16_t, LANES_OF_BLOCK, ODD, MEAN, CANONICAL_FLOAT16)
#else
PAIR(float16, uint16_t, float, float16_to_float, float16_from_float, NAN_FLOAT)
EXACT(float16, uint16_t, EACH_OF_BLOCK, SUM_OF_FLOAT16, MEAN_OF_FLOAT16,
      CANONICAL_FLOAT16)
#endif
PLAIN_SUMS(float8, uint8_t, DECODE_FLOAT8)
EXACT_SUMS(float8, uint8_t, DECODE_FLOAT8, 1, IN_VARIANT(odd_sum))
SMALL_SUMS(float8, uint8_t)
PAIR(float8, uint8_t, float, DECODE_FLOAT8, ENCODE_FLOAT8, NAN_FLOAT)
EXACT(float8, uint8_t, EACH_OF_BLOCK, SUM_OF_FLOAT8, MEAN_OF_FLOAT8, CANONICAL_FLOAT8)
PLAIN_SUMS(bfloat16, uint16_t, bfloat16_to_float)
EXACT_SUMS(bfloat16, uint16_t, bfloat16_to_float, 1, IN_VARIANT(odd_sum))
SPANNED(bfloat16, uint16_t, uint16_t, VALUE, 7, 0x7f80)
SPANNED_SUMS(bfloat16, uint16_t, 8)
PAIR(bfloat16, uint16_t, float, bfloat16_to_float, bfloat16_from_float, NAN_FLOAT)
EXACT(bfloat16, uint16_t, EACH_OF_BLOCK, SUM_OF_BFLOAT16, MEAN_OF_BFLOAT16,
      CANONICAL_BFLOAT16)
PLAIN_SUMS(float32, float, VALUE)
EXACT_SUMS(float32, float, VALUE, 1, IN_VARIANT(odd_sum))
SPANNED(float32, float, uint32_t, float_bits, 23, 0x7f800000)
SPANNED_SUMS(float32, float, 24)
PAIR(float32, float, float, VALUE, VALUE, NAN_FLOAT)
EXACT(float32, float, EACH_OF_BLOCK, SUM_OF_FLOAT32, MEAN, CANONICAL_FLOAT)
EXACT_SUMS(float64, double, VALUE, 0, ADD)
CASCADED_SUMS(float64, double)
PAIR(float64, double, double, VALUE, VALUE, NAN_DOUBLE)
EXACT(float64, double, EACH_OF_BLOCK, VALUE, QUOTIENT, CANONICAL_DOUBLE)
COMPLEX_EXACT(complex64, float32)
COMPLEX_EXACT(complex128, float64)
