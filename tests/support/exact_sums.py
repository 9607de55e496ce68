"""Exact sums by fractions, rounded once: what invariant sums must be, to the bit."""

from fractions import Fraction
from math import inf, isnan, nan

import numpy as np


def exact_sums(contributions):
    """The sums of arrays of floats, element by element, in their dtype."""
    dtype = contributions[0].dtype
    if dtype.kind == "c":
        part = f"f{dtype.itemsize // 2}"
        return exact_sums([each.view(part) for each in contributions]).view(dtype)
    columns = np.array([each.astype(np.float64) for each in contributions]).T.tolist()
    return np.array([exact_sum(column, dtype) for column in columns], dtype)


def exact_sum(values, dtype):
    """The sum of doubles that are values of a dtype, as a double."""
    infinite = {value for value in values if abs(value) == inf}
    if any(map(isnan, values)) or len(infinite) == 2:
        return nan
    if infinite:
        return infinite.pop()
    return nearest(sum(map(Fraction, values), Fraction(0)), dtype)


def nearest(exact, dtype):
    """The value of a dtype that is nearest to a fraction; of two, the even one."""
    bits = f"u{dtype.itemsize}"
    try:
        guess = abs(float(exact))
    except OverflowError:
        guess = inf
    with np.errstate(over="ignore", under="ignore"):
        middle = int(np.array(guess).astype(dtype).view(bits))
    around = [place for place in (middle - 1, middle, middle + 1) if place >= 0]
    best = min(around, key=lambda b: (abs(magnitude(b, dtype) - abs(exact)), b % 2))
    found = float(np.array(best, bits).view(dtype).astype(np.float64))
    return found if exact >= 0 else -found


def magnitude(bits, dtype):
    """The fraction of positive bits of a dtype; infinity is the next one."""
    value = float(np.array(bits, f"u{dtype.itemsize}").view(dtype).astype(np.float64))
    if value < inf:
        return Fraction(value)
    if isnan(value):
        return Fraction(1 << 4000)
    return 2 * magnitude(bits - 1, dtype) - magnitude(bits - 2, dtype)
