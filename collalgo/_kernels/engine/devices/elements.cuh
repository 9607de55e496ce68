/* The elements of every dtype: how they are widened and narrowed, and the arithmetic on
 * them. It is C++ for the device and for the host, where the tests run it. It
 * includes no file, so that NVRTC needs no headers. */
#ifndef COLLALGO_ELEMENTS_CUH
#define COLLALGO_ELEMENTS_CUH

#ifdef __CUDACC__
#define EVERYWHERE __host__ __device__ __forceinline__
#else
#define EVERYWHERE inline
#endif

namespace collalgo {

using int8 = signed char;
using int16 = short;
using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

EVERYWHERE uint32 float_bits(float x) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    uint32 bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
#endif
}

EVERYWHERE float bits_float(uint32 bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
#endif
}

constexpr uint32 SIGN = 0x80000000, INFINITE = 0x7f800000;

/* ---- Arithmetic. CuPy compiles with -ftz=true, for which operators on float32 take
 * subnormal numbers for zeros; instructions do so only when they are told to. */

template <class T> EVERYWHERE T plus(T a, T b) { return a + b; }
template <class T> EVERYWHERE T minus(T a, T b) { return a - b; }
template <class T> EVERYWHERE T times(T a, T b) { return a * b; }
template <class T> EVERYWHERE T quotient(T a, T b) { return a / b; }
template <class T> EVERYWHERE bool less(T a, T b) { return a < b; }
template <class T> EVERYWHERE bool is_nan(T a) { return a != a; }
template <class T> EVERYWHERE bool is_true(T a) { return a != 0; }

#ifdef __CUDA_ARCH__
#define OF_FLOATS(name, instruction)                                              \
    EVERYWHERE float name(float a, float b) {                                     \
        float result;                                                             \
        asm(instruction " %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));          \
        return result;                                                            \
    }

OF_FLOATS(plus, "add.rn.f32")
OF_FLOATS(minus, "sub.rn.f32")
OF_FLOATS(times, "mul.rn.f32")
OF_FLOATS(quotient, "div.rn.f32")
#undef OF_FLOATS

EVERYWHERE bool less(float a, float b) {
    uint32 yes;
    asm("set.lt.u32.f32 %0, %1, %2;" : "=r"(yes) : "f"(a), "f"(b));
    return yes;
}

EVERYWHERE bool is_nan(float a) { return (float_bits(a) & ~SIGN) > INFINITE; }
EVERYWHERE bool is_true(float a) { return float_bits(a) & ~SIGN; }
#endif

/* The power of two, as the bits of a float. */
EVERYWHERE constexpr uint32 power(int exponent) {
    return static_cast<uint32>(exponent + 127) << 23;
}

/* The meaning of the highest codes of a small float: infinity and NaN, as in IEEE 754; NaN
 * for the last code only; or numbers, with NaN in the place of the negative zero. */
enum class Top { IEEE, ONE_NAN, NAN_FOR_NEGATIVE_ZERO };

/* A float of a sign, some bits of exponent and some of mantissa, and how it becomes a
 * float32 and comes from one, rounded to the nearest, ties to even. */
template <class Word, int EXPONENT, int MANTISSA, int BIAS, Top TOP>
struct Small {
    Word word;

    static constexpr int WIDTH = 1 + EXPONENT + MANTISSA, SHIFT = 23 - MANTISSA;
    static constexpr uint32 MINUS = 1u << (WIDTH - 1), LAST = MINUS - 1;
    static constexpr uint32 INF = ((1u << EXPONENT) - 1) << MANTISSA;
    static constexpr uint32 NAN_CODE = TOP == Top::IEEE      ? INF | 1u << (MANTISSA - 1)
                                       : TOP == Top::ONE_NAN ? LAST
                                                             : MINUS;
    /* The first code that is too large for a number, and what is stored instead. */
    static constexpr uint32 BEYOND = TOP == Top::IEEE ? INF : NAN_CODE;
    static constexpr uint32 OVERFLOW = TOP == Top::IEEE ? INF : NAN_CODE;

    EVERYWHERE static float widen(Word word) {
        uint32 code = word, magnitude = code & LAST;
        /* The exponent is rebased by a multiplication, which normalises subnormals. */
        float based = bits_float(magnitude << SHIFT), power_of_bias = bits_float(power(127 - BIAS));
        uint32 bits = float_bits(times(based, power_of_bias));
        if (TOP == Top::IEEE && magnitude >= INF) bits = magnitude << SHIFT | INFINITE;
        if (TOP == Top::ONE_NAN && magnitude == LAST) bits = INFINITE | 1u << 22;
        if (TOP == Top::NAN_FOR_NEGATIVE_ZERO && code == MINUS) bits = INFINITE | 1u << 22;
        return bits_float(bits | (code & MINUS) << (32 - WIDTH));
    }

    EVERYWHERE static Word narrow(float x) {
        uint32 bits = float_bits(x), magnitude = bits & ~SIGN, even = magnitude >> SHIFT & 1;
        uint32 rounded = magnitude - ((127u - BIAS) << 23) + (1u << (SHIFT - 1)) - 1 + even;
        /* The last bit of this power is that of a subnormal: the addition rounds. */
        uint32 unit = power(24 - BIAS - MANTISSA);
        uint32 subnormal = float_bits(plus(bits_float(magnitude), bits_float(unit))) - unit;
        uint32 code = magnitude < (128u - BIAS) << 23 ? subnormal : rounded >> SHIFT;
        if (code >= BEYOND) code = OVERFLOW;
        if (magnitude > INFINITE) code = NAN_CODE;
        uint32 sign = bits >> (32 - WIDTH) & MINUS;
        if (TOP == Top::NAN_FOR_NEGATIVE_ZERO && code == 0) sign = 0;
        return static_cast<Word>(code | sign);
    }
};

using float8_e3m4 = Small<uint8, 3, 4, 3, Top::IEEE>;
using float8_e4m3 = Small<uint8, 4, 3, 7, Top::IEEE>;
using float8_e4m3b11fnuz = Small<uint8, 4, 3, 11, Top::NAN_FOR_NEGATIVE_ZERO>;
using float8_e4m3fn = Small<uint8, 4, 3, 7, Top::ONE_NAN>;
using float8_e4m3fnuz = Small<uint8, 4, 3, 8, Top::NAN_FOR_NEGATIVE_ZERO>;
using float8_e5m2 = Small<uint8, 5, 2, 15, Top::IEEE>;
using float8_e5m2fnuz = Small<uint8, 5, 2, 16, Top::NAN_FOR_NEGATIVE_ZERO>;
using float16 = Small<uint16, 5, 10, 15, Top::IEEE>;

struct bfloat16 {
    uint16 word;

    EVERYWHERE static float widen(uint16 word) {
        return bits_float(static_cast<uint32>(word) << 16);
    }

    EVERYWHERE static uint16 narrow(float x) {
        uint32 bits = float_bits(x), even = bits >> 16 & 1;
        bool is_nan = (bits & ~SIGN) > INFINITE;
        return static_cast<uint16>(is_nan ? bits >> 16 | 0x40 : (bits + 0x7fff + even) >> 16);
    }
};

template <class Part>
struct Complex {
    Part real, imag;
};

using float32 = float;
using float64 = double;
using complex64 = Complex<float>;
using complex128 = Complex<double>;

/* ---- The type in which a dtype is computed, and the conversions. */

template <class T>
struct Wide {
    using type = T;
    EVERYWHERE static T load(T x) { return x; }
    EVERYWHERE static T store(T x) { return x; }
};

template <class T>
struct ThroughFloat {
    using type = float;
    EVERYWHERE static float load(T x) { return T::widen(x.word); }
    EVERYWHERE static T store(float x) { return T{T::narrow(x)}; }
};

template <class Word, int EXPONENT, int MANTISSA, int BIAS, Top TOP>
struct Wide<Small<Word, EXPONENT, MANTISSA, BIAS, TOP>>
    : ThroughFloat<Small<Word, EXPONENT, MANTISSA, BIAS, TOP>> {};

template <>
struct Wide<bfloat16> : ThroughFloat<bfloat16> {};

#ifdef __CUDA_ARCH__
/* The processor has instructions for these, with the same results. */
template <>
struct Wide<float16> {
    using type = float;
    EVERYWHERE static float load(float16 x) {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.word));
        return wide;
    }
    EVERYWHERE static float16 store(float x) {
        float16 narrow;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.word) : "f"(x));
        return narrow;
    }
};
#endif

}  // namespace collalgo

#endif
