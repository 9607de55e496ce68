/* The ops: how two elements of a dtype are combined, and how a sum is divided for a mean. */
#ifndef COLLALGO_OPS_CUH
#define COLLALGO_OPS_CUH

#include "elements.cuh"

namespace collalgo {

/* ---- Sums and products of integers wrap around. */

template <class T> struct Wrapping { using type = T; };
template <> struct Wrapping<int8> { using type = uint32; };
template <> struct Wrapping<int16> { using type = uint32; };
template <> struct Wrapping<int32> { using type = uint32; };
template <> struct Wrapping<int64> { using type = uint64; };
template <> struct Wrapping<uint16> { using type = uint32; };

struct Sum {
    template <class T>
    EVERYWHERE static T of(T a, T b) {
        using U = typename Wrapping<T>::type;
        return static_cast<T>(plus(static_cast<U>(a), static_cast<U>(b)));
    }
    template <class T>
    EVERYWHERE static Complex<T> of(Complex<T> a, Complex<T> b) {
        return {plus(a.real, b.real), plus(a.imag, b.imag)};
    }
};

struct Prod {
    template <class T>
    EVERYWHERE static T of(T a, T b) {
        using U = typename Wrapping<T>::type;
        return static_cast<T>(times(static_cast<U>(a), static_cast<U>(b)));
    }
    template <class T>
    EVERYWHERE static Complex<T> of(Complex<T> a, Complex<T> b) {
        return {minus(times(a.real, b.real), times(a.imag, b.imag)),
                plus(times(a.real, b.imag), times(a.imag, b.real))};
    }
};

/* A NaN wins, whichever side it is on. */
struct Min {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return less(a, b) || is_nan(a) ? a : b; }
};

struct Max {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return less(b, a) || is_nan(a) ? a : b; }
};

struct Band {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return static_cast<T>(a & b); }
};

struct Bor {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return static_cast<T>(a | b); }
};

struct Bxor {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return static_cast<T>(a ^ b); }
};

struct Land {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return static_cast<T>(is_true(a) & is_true(b)); }
};

struct Lor {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return static_cast<T>(is_true(a) | is_true(b)); }
};

struct Lxor {
    template <class T>
    EVERYWHERE static T of(T a, T b) { return static_cast<T>(is_true(a) ^ is_true(b)); }
};

/* ---- The division of a mean. */

template <class T>
EVERYWHERE T divided(T a, int64 n) {
    if (T(0.5) != T(0)) return quotient(a, static_cast<T>(n));
    if (T(-1) > T(0)) return static_cast<T>(static_cast<uint64>(a) / static_cast<uint64>(n));
    /* As Python's //, so that a mean of integers does not depend on their sign. */
    int64 wide = static_cast<int64>(a), quotient = wide / n;
    return static_cast<T>(quotient - (quotient * n != wide && wide < 0));
}

template <class T>
EVERYWHERE Complex<T> divided(Complex<T> a, int64 n) {
    return {divided(a.real, n), divided(a.imag, n)};
}

}  // namespace collalgo

#endif
