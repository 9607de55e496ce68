"""Kernels of exact sums against fractions, for every instruction set."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo._kernels.engine.reduction.reduce import VARIANTS
from collalgo.engine.exact_values import GrowingLimbs, Limbs
from collalgo.engine.reduction import INVARIANT_MEAN, INVARIANT_SUM, reduction
from tests.support.exact_sums import exact_sums

DTYPES = [
    np.dtype(name)
    for name in (
        *("f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16),
        *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3),
    )
]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]


def bits(array):
    return array.tobytes()


def spread(rng, dtype, shape, powers):
    """Random numbers whose exponents differ, with specials and cancellations."""
    real = dtype if dtype.kind != "c" else np.dtype(f"f{dtype.itemsize // 2}")
    count = shape[1] * (1 + (dtype.kind == "c"))
    x = rng.standard_normal((shape[0], count))
    x *= 2.0 ** rng.uniform(-powers, powers, x.shape)
    with np.errstate(over="ignore", under="ignore"):
        x = x.astype(real)
    x[-1, : count // 4] = -x[0, : count // 4]
    x[:, count // 4 : count // 3] = rng.choice(
        SPECIAL, x[:, count // 4 : count // 3].shape
    )
    return x.view(dtype)


def powers_of(dtype):
    """Exponents that suit a double, that do not, and up to both ends of a dtype."""
    ends = {1: 6, 2: 12}.get(dtype.itemsize, 120)
    return (1, ends) if dtype.kind != "f" or dtype.itemsize < 8 else (1, 30, 1000)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_kernel_rounds_the_exact_sum_once(dtype, variant):
    rng = np.random.default_rng(3)
    kernel = reduction(dtype, INVARIANT_SUM, variant)
    for inputs in (1, 2, 3, 8):
        for powers in powers_of(dtype):
            x = spread(rng, dtype, (inputs, 40), powers)
            expected = bits(exact_sums(list(x)))
            assert bits(kernel(np.empty_like(x[0]), list(x))) == expected
            shuffled = list(rng.permutation(x))
            assert bits(kernel(shuffled[-1], shuffled)) == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_limbs_give_the_bits_of_the_kernel(dtype):
    rng = np.random.default_rng(4)
    for powers in powers_of(dtype):
        x = spread(rng, dtype, (5, 30), powers)
        for op, divisor in ((INVARIANT_SUM, 0), (INVARIANT_MEAN, 5)):
            expected = reduction(dtype, op)(np.empty_like(x[0]), list(x), divisor)
            way, found = Limbs(dtype, divisor), np.empty_like(x[0])
            total = sum_of_limbs(way, x)
            way.narrow(total, found)
            assert bits(found) == bits(expected), (op, powers)


def sum_of_limbs(way, contributions):
    wide = [way.empty(each.shape) for each in contributions]
    for each, own in zip(contributions, wide, strict=True):
        way.widen(each, own)
    return sum(wide[1:], wide[0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_kernel_takes_blocks_and_any_number_of_inputs(variant):
    """Up to 64 inputs the plain kernel, up to 4096 limbs of 64 bits, then others."""
    rng = np.random.default_rng(5)
    for dtype in (np.dtype("f4"), np.dtype(ml_dtypes.bfloat16)):
        kernel = reduction(dtype, INVARIANT_SUM, variant)
        for count in (63, 64, 65, 70, 4096, 4097):
            x = rng.integers(-99, 99, (count, 1000)).astype(dtype)
            found = kernel(np.empty_like(x[0]), list(x))
            expected = x.astype(np.float64).sum(0).astype(np.float32).astype(dtype)
            assert bits(found) == bits(expected), count


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(), min_size=3, max_size=9), st.randoms())
def test_any_doubles_in_any_order_give_the_bits_of_fsum(values, random):
    expected = exact_sums([np.array([value]) for value in values])
    random.shuffle(values)
    arrays = [np.array([value]) for value in values]
    found = reduction(np.dtype(float), INVARIANT_SUM)(np.empty(1), arrays)
    assert bits(found) == bits(expected)
    total = GrowingLimbs(1, np.dtype(float))
    for array in arrays:
        total.add(array)
    assert bits(total.value()) == bits(expected)
    if sum(map(abs, values)) < np.inf:  # else fsum may raise
        assert found[0] == math.fsum(values)


def test_intermediate_overflow_does_no_harm():
    kernel = reduction(np.dtype(float), INVARIANT_SUM)
    big = np.finfo(float).max
    arrays = [np.array([x]) for x in (big, big, -big, 1.0)]
    assert kernel(np.empty(1), arrays)[0] == big
    assert kernel(np.empty(1), arrays[:3])[0] == big
    assert kernel(np.empty(1), [arrays[0], arrays[1], np.zeros(1)])[0] == np.inf


def test_limbs_carry_before_they_overflow():
    """Each addend fills its limb; more of them than a limb has room for are added."""
    full = np.array([float((1 << 48) - 1)]) * 2.0**22  # on the border of a limb
    total, added = GrowingLimbs(1, full.dtype), (1 << 15) + 5
    for _ in range(added):
        total.add(full)
    assert total.value()[0] == float(int(full[0]) * added)
