/* Element-wise reductions of n inputs for every dtype and op, in several
 * instruction sets in one binary: reduce_variant.h is compiled once for each. */
#ifndef COLLALGO_REDUCE_KERNELS_H
#define COLLALGO_REDUCE_KERNELS_H

#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "exact_kernels.h"
#include "reduce.h"
#include "reduce_macros.h"

static inline uint32_t float_bits(float f) { uint32_t x; memcpy(&x, &f, 4); return x; }
static inline float bits_float(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }

static inline float bfloat16_to_float(uint16_t h) { return bits_float((uint32_t)h << 16); }

static inline uint16_t bfloat16_from_float(float f) {
    uint32_t x = float_bits(f), even = x >> 16 & 1;
    uint32_t rounded = (x + 0x7fff + even) >> 16;
    return (uint16_t)((x & 0x7fffffff) > 0x7f800000 ? x >> 16 | 0x40 : rounded);
}

static inline float float16_to_float(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    /* The exponent is rebased by a multiplication, which normalises subnormals. */
    uint32_t finite = float_bits(bits_float(magnitude) * 0x1p112f);
    uint32_t x = magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : finite;
    return bits_float(x | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t float16_from_float(float f) {
    uint32_t x = float_bits(f), magnitude = x & 0x7fffffff, even = magnitude >> 13 & 1;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + even) >> 13;
    /* The last bit of 0.5f is that of a subnormal float16: the addition rounds. */
    uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
    uint32_t h = magnitude < 113u << 23 ? subnormal : normal;
    h = magnitude >= 143u << 23 ? 0x7c00 : h;
    h = magnitude > 0x7f800000 ? 0x7e00 : h;
    return (uint16_t)(h | (x >> 16 & 0x8000));
}

static inline uint8_t float8_from_float(float f, const float8_tables *tables) {
    uint32_t x = float_bits(f);
    return tables->encode[x >> 16 | ((x & 0xffff) != 0)];
}

/* As Python's //, so that a mean of integers does not depend on their sign. */
static inline int64_t floor_divide(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient - (quotient * b != a && (a < 0) != (b < 0));
}

/* The same of 16 bits, and of 32, without calling floor(). */
static inline int32_t floor_of_float(float a, float b) {
    int32_t quotient = (int32_t)(a / b);
    return quotient - ((float)quotient * b > a);
}

static inline int32_t floor_of_double(double a, double b) {
    int32_t quotient = (int32_t)(a / b);
    return quotient - ((double)quotient * b > a);
}

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
/* A NaN wins, whichever side it is on. */
#define MINIMUM(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAXIMUM(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
/* Of times, whose least integer is "not a time" and wins. */
#define NO_TIME INT64_MIN
#define EITHER_NO_TIME(a, b) ((a) == NO_TIME || (b) == NO_TIME)
#define LATEST(a, b) (EITHER_NO_TIME(a, b) ? NO_TIME : (a) > (b) ? (a) : (b))
#define ADD_TIMES(a, b) \
    (EITHER_NO_TIME(a, b) ? NO_TIME : (int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define BITWISE_AND(a, b) ((a) & (b))
#define BITWISE_OR(a, b) ((a) | (b))
#define BITWISE_XOR(a, b) ((a) ^ (b))
#define LOGICAL_AND(a, b) (((a) != 0) & ((b) != 0))
#define LOGICAL_OR(a, b) (((a) != 0) | ((b) != 0))
#define LOGICAL_XOR(a, b) (((a) != 0) ^ ((b) != 0))

#define VALUE(x) (x)
/* The division of a sum for the mean of a dtype. Floats hold the quotients of small integers
 * exactly, and can be divided as vectors. */
#define QUOTIENT(a) ((a) / divisor)
#define FLOOR(a) floor_divide((a), divisor)
#define FLOOR_FLOAT(a) floor_of_float((float)(a), (float)divisor)
#define FLOOR_DOUBLE(a) floor_of_double((a), (double)divisor)
#define UNSIGNED(a) ((a) / (uint64_t)divisor)
#define UNSIGNED_DOUBLE(a) ((a) / (double)divisor)

#if defined(__clang__)
#define ANY_ORDER _Pragma("clang loop vectorize(assume_safety)")
#else
#define ANY_ORDER _Pragma("GCC ivdep")
#endif

/* Bytes combined at once: few enough for the accumulators to stay in L1. */
#define BLOCK_BYTES 4096

#define GLUE_(a, b) a##_##b
#define GLUE(a, b) GLUE_(a, b)
#define IN_VARIANT(name) GLUE(name, VARIANT)

/* The conversions of variants with float16 in vector registers, and the elements of each. */
#if defined(__aarch64__)
#define LANES 4
#define WIDEN(to, from) \
    vst1q_f32(to, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))))
#define NARROW(to, from) \
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from))))
#endif
#define VARIANT baseline
#include "reduce_variant.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define COLLALGO_X86 1
#define VARIANT avx2
#define LANES 8
#define WIDEN(to, from) \
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#define NARROW(to, from) \
    _mm_storeu_si128((__m128i *)(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), 0))
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#include "reduce_variant.h"
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#include "reduce_variant.h"
#pragma GCC pop_options
#endif

#define VARIANT avx512
#define LANES 16
#define WIDEN(to, from) \
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from))))
#define NARROW(to, from) \
    _mm256_storeu_si256((__m256i *)(to), _mm512_cvtps_ph(_mm512_loadu_ps(from), 0))
#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#include "reduce_variant.h"
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#include "reduce_variant.h"
#pragma GCC pop_options
#endif
#endif

typedef const reduce_fn (*reduce_table)[OPS];

/* The kernels of one instruction set, or NULL if this machine does not have it. */
static reduce_table reduce_variant(const char *name) {
    if (!strcmp(name, "baseline")) return table_baseline;
#ifdef COLLALGO_X86
    __builtin_cpu_init();
    if (!strcmp(name, "avx2") && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("f16c"))
        return table_avx2;
    if (!strcmp(name, "avx512") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return table_avx512;
#endif
    return NULL;
}

#endif
