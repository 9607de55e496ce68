# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Exact sums of many elements in limbs: integers on one grid, which are added in any order.

Limbs are described in ``exact_total.h``. A table of limbs has a row for each element and a
column for each limb of a window of them.
"""

from libc.stdint cimport int64_t

import numpy as np

cdef extern from "exact_total.h" nogil:
    enum: LIMBS, LIMB_BITS, LIMB_ADDENDS
    ctypedef struct limb_window:
        int64_t *at
        int64_t low, high, special
    void limbs_of(double value, int64_t special, int64_t *first, int64_t *last)
    void add_to_limbs(const limb_window *w, double value)
    void carry_limbs(const limb_window *w, int64_t last)
    int64_t special_kinds(int64_t count)
    double value_of_limbs(const limb_window *w, int is_odd)

#: The number of limbs of all doubles, the bits of each, and the most values that a limb takes
#: before its carries must move on.
ALL_LIMBS, BITS, ADDENDS = LIMBS, LIMB_BITS, LIMB_ADDENDS


cdef limb_window window_of(int64_t[:, ::1] limbs, int64_t low, int64_t special):
    cdef limb_window window
    window.low, window.high = low, low + limbs.shape[1] - 1
    window.special, window.at = special, NULL
    return window


def window(const double[::1] values, int64_t special):
    """The first and the last limb that any of some values has bits in.

    The first is the greater one if all are zero.
    """
    cdef int64_t low = LIMBS, high = -1, first, last, i
    with nogil:
        for i in range(values.shape[0]):
            limbs_of(values[i], special, &first, &last)
            low, high = min(low, first), max(high, last)
    return low, high


def add(
    int64_t[:, ::1] limbs, int64_t low, int64_t special, const double[::1] values
):
    """Add values to the limbs of their elements, whose window has all bits of them."""
    cdef limb_window w = window_of(limbs, low, special)
    cdef int64_t i
    with nogil:
        for i in range(values.shape[0]):
            w.at = &limbs[i, 0]
            add_to_limbs(&w, values[i])


def carry(int64_t[:, ::1] limbs, int64_t low, int64_t special):
    """Move all carries on, and return the greatest magnitude of the last limb.

    Afterwards the limbs of an element count as those of one value if that is short.
    """
    cdef limb_window w = window_of(limbs, low, special)
    cdef int64_t i, last = w.high - (w.high == special), most = 0
    if limbs.shape[1] == 0:
        return 0
    with nogil:
        for i in range(limbs.shape[0]):
            w.at = &limbs[i, 0]
            if w.high == special:
                w.at[w.high - low] = special_kinds(w.at[w.high - low])
            if last >= low:
                carry_limbs(&w, last)
                most = max(most, max(w.at[last - low], -w.at[last - low]))
    return most


def totals(int64_t[:, ::1] limbs, int64_t low, int64_t special, bint is_odd):
    """The sums in limbs, which are changed, as float64: rounded to nearest, or to odd.

    What is rounded to odd can be rounded to a shorter float afterwards.
    """
    cdef limb_window w = window_of(limbs, low, special)
    found = np.zeros(limbs.shape[0])
    cdef double[::1] sums = found
    cdef int64_t i
    if limbs.shape[1] == 0:
        return found
    with nogil:
        for i in range(limbs.shape[0]):
            w.at = &limbs[i, 0]
            sums[i] = value_of_limbs(&w, is_odd)
    return found
