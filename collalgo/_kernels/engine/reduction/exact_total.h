/* The exact sum of doubles, in limbs: integers of LIMB_BITS bits each, on one grid for all values.
 *
 * Limb j counts units of 2 ** (LIMB_BITS * j + LEAST_EXPONENT). It has bits to spare, so limbs
 * are added without carries, in any order: a sum of limbs is a sum of int64. The limb above all
 * values of a dtype counts infinities and NaNs. */
#ifndef COLLALGO_EXACT_TOTAL_H
#define COLLALGO_EXACT_TOTAL_H

#include <stdint.h>
#include <string.h>

enum {
    LIMB_BITS = 48,
    LEAST_EXPONENT = -1074,  /* of the least subnormal double */
    LIMBS = 45,              /* the last is above all doubles */
    LIMB_ADDENDS = 1 << 14   /* that a limb takes before its carries must move on */
};
#define LIMB_MASK (((int64_t)1 << LIMB_BITS) - 1)

/* What a special value adds to its limb, which counts the kinds apart. */
#define POSITIVE_INFINITY ((int64_t)1)
#define NEGATIVE_INFINITY ((int64_t)1 << 16)
#define NOT_A_NUMBER ((int64_t)1 << 32)

static inline uint64_t double_bits(double f) { uint64_t x; memcpy(&x, &f, 8); return x; }
static inline double bits_double(uint64_t x) { double f; memcpy(&f, &x, 8); return f; }

/* Some limbs of a sum: number ``low`` is at ``at[0]``, and the last is number ``high``; number
 * ``special`` counts infinities and NaNs. */
typedef struct {
    int64_t *at, low, high, special;
} limb_window;

/* The first and the last limb that a value has bits in; first > last for a zero. */
static inline void limbs_of(double value, int64_t special, int64_t *first,
                            int64_t *last) {
    uint64_t bits = double_bits(value), mantissa = bits & (((uint64_t)1 << 52) - 1);
    int64_t exponent = bits >> 52 & 0x7ff;
    *first = LIMBS, *last = -1;
    if (exponent == 0x7ff) *first = *last = special;
    else if (exponent || mantissa) {
        mantissa |= (uint64_t)(exponent > 0) << 52;
        exponent -= exponent > 0;
        *first = (exponent + __builtin_ctzll(mantissa)) / LIMB_BITS;
        *last = (exponent + 63 - __builtin_clzll(mantissa)) / LIMB_BITS;
    }
}

static inline void add_limb(const limb_window *w, int64_t number, int64_t value) {
    if (value) w->at[number - w->low] += value;
}

/* Add a value, all bits of which are in the window. */
static inline void add_to_limbs(const limb_window *w, double value) {
    uint64_t bits = double_bits(value), mantissa = bits & (((uint64_t)1 << 52) - 1);
    int64_t exponent = bits >> 52 & 0x7ff, sign = bits >> 63 ? -1 : 1;
    if (exponent == 0x7ff) {
        int64_t infinity = sign < 0 ? NEGATIVE_INFINITY : POSITIVE_INFINITY;
        add_limb(w, w->special, mantissa ? NOT_A_NUMBER : infinity);
        return;
    }
    mantissa |= (uint64_t)(exponent > 0) << 52;
    exponent -= exponent > 0;
    int64_t number = exponent / LIMB_BITS, shift = exponent % LIMB_BITS;
    add_limb(w, number, sign * (int64_t)(mantissa << shift & LIMB_MASK));
    add_limb(w, number + 1, sign * (int64_t)(mantissa >> (LIMB_BITS - shift) & LIMB_MASK));
    if (shift > 2 * LIMB_BITS - 53)
        add_limb(w, number + 2, sign * (int64_t)(mantissa >> (2 * LIMB_BITS - shift)));
}

/* Count each kind of special value once. */
static inline int64_t special_kinds(int64_t count) {
    int64_t positive = (count & 0xffff) != 0, negative = (count >> 16 & 0xffff) != 0;
    return positive | negative << 16 | (int64_t)(count >> 32 != 0) << 32;
}

/* Move the carries of all limbs on, so that only the last may be negative or long. */
static inline void carry_limbs(const limb_window *w, int64_t last) {
    for (int64_t j = w->low; j < last; j++) {
        w->at[j + 1 - w->low] += w->at[j - w->low] >> LIMB_BITS;
        w->at[j - w->low] &= LIMB_MASK;
    }
}

/* A nonnegative integer times 2 ** exponent, as a double: rounded to nearest, or to odd. */
static inline double scaled(uint64_t bits, int64_t exponent, int is_odd) {
    double value = (double)bits;
    if (is_odd) value = (double)(bits >> 11 | ((bits & 0x7ff) != 0)) * 0x1p11;
    int64_t half = exponent / 2;
    value *= bits_double((uint64_t)(half + 1023) << 52);
    return value * bits_double((uint64_t)(exponent - half + 1023) << 52);
}

static inline double special_value(int64_t count) {
    int64_t negative = count >> 16 & 0xffff, positive = count & 0xffff;
    double infinity = bits_double((uint64_t)0x7ff << 52);
    if (count >> 32 || (positive && negative)) return bits_double((uint64_t)0xfff << 51);
    return negative ? -infinity : infinity;
}

/* The upper 64 bits of nonnegative limbs from a top one that is not 0; the last of these bits
 * is set if any bit below is. */
static inline uint64_t upper_bits(const limb_window *w, int64_t top, int64_t *exponent) {
    const int64_t *at = w->at - w->low;
    uint64_t first = (uint64_t)at[top], sticky = 0;
    uint64_t second = top > w->low ? (uint64_t)at[top - 1] : 0;
    uint64_t third = top > w->low + 1 ? (uint64_t)at[top - 2] : 0;
    int64_t room = __builtin_clzll(first), more = room - LIMB_BITS;
    uint64_t bits = first << room;
    if (more <= 0) {
        bits |= second >> -more;
        sticky = (second & (((uint64_t)1 << -more) - 1)) | third;
    } else {
        bits |= second << more | third >> (LIMB_BITS - more);
        sticky = third & (((uint64_t)1 << (LIMB_BITS - more)) - 1);
    }
    for (int64_t j = w->low; j < top - 2; j++) sticky |= (uint64_t)at[j];
    *exponent = LIMB_BITS * top + LEAST_EXPONENT - room;
    return bits | (sticky != 0);
}

/* The value of limbs, which are changed: rounded to nearest, or to odd, so that it can be
 * rounded to a shorter float afterwards. A zero is positive, a NaN always the same. */
static inline double value_of_limbs(const limb_window *w, int is_odd) {
    int64_t *at = w->at - w->low, last = w->high, top, exponent;
    if (last == w->special) {
        if (at[last]) return special_value(at[last]);
        last -= 1;
    }
    if (last < w->low) return 0;
    carry_limbs(w, last);
    int is_negative = at[last] < 0;
    if (is_negative) {
        for (int64_t j = w->low; j <= last; j++) at[j] = -at[j];
        carry_limbs(w, last);
    }
    for (top = last; top >= w->low && !at[top]; top--) continue;
    if (top < w->low) return 0;
    uint64_t bits = upper_bits(w, top, &exponent);
    double value = scaled(bits, exponent, is_odd);
    return is_negative ? -value : value;
}

/* The exact sum of single elements of several inputs. */
typedef struct {
    int64_t limbs[LIMBS];
    limb_window window;
} exact_total;

static inline void begin_total(exact_total *total) {
    total->window.low = LIMBS, total->window.high = -1, total->window.special = LIMBS - 1;
}

/* Add a value; a sum has at most LIMB_ADDENDS. */
static inline void add_to_total(exact_total *total, double value) {
    limb_window *w = &total->window;
    int64_t first, last;
    limbs_of(value, w->special, &first, &last);
    if (first > last) return;
    if (w->high < 0) {
        w->low = first, w->high = first;
        total->limbs[first] = 0;
    }
    while (w->low > first) total->limbs[--w->low] = 0;
    while (w->high < last) total->limbs[++w->high] = 0;
    w->at = total->limbs + w->low;
    add_to_limbs(w, value);
}

static inline double value_of_total(exact_total *total, int is_odd) {
    return total->window.high < 0 ? 0 : value_of_limbs(&total->window, is_odd);
}

#endif
