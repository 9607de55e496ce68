"""The kernels against their NumPy twins, for every dtype, op and instruction set."""

import numpy as np
import pytest

from collalgo._kernels.engine.reduction.reduce import VARIANTS
from collalgo.engine.dtypes import DTYPES, FLOAT8, HOST_ONLY
from collalgo.engine.reduction import OPS, op_of, reduction
from tests.support.oracle import UFUNCS, dtype_of

#: Around the block of the accumulators, and what is left of a vector register.
COUNTS = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 511, 512, 513, 1000, 1025]


def random_bits(rng, dtype, count):
    """All bit patterns, with NaN, infinities and subnormal numbers among them."""
    if dtype == np.bool_:
        return rng.integers(0, 2, count).astype(dtype)
    if dtype.type in (np.longdouble, np.clongdouble):  # of which some bits are unused
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-4940], dtype)
        plain = rng.normal(size=count).astype(dtype) / dtype.type(3)
        return np.where(
            rng.integers(0, 9, count) == 0, rng.choice(special, count), plain
        )
    if dtype.kind in "mM":
        times = rng.integers(-4, 4, count)
        times[rng.integers(0, 9, count) == 0] = np.iinfo(np.int64).min
        return times.view(f"{dtype.kind}8[s]")
    return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)


def twin(arrays, op):
    """The same reduction by NumPy, small floats by way of float32."""
    dtype = arrays[0].dtype
    small = dtype.kind not in "biucmM" and dtype.itemsize < 4
    wide = np.float32 if small else dtype
    with np.errstate(all="ignore"):
        total = arrays[0].astype(wide)
        for array in arrays[1:]:
            total = UFUNCS[op](total, array.astype(wide)).astype(wide)
        return total.astype(dtype)


def assert_same_bits(found, expected):
    """Equal to the bit, but for the payload of NaN."""
    if found.dtype.type in (np.longdouble, np.clongdouble):
        np.testing.assert_array_equal(found, expected, strict=True)
        return
    part = {"c": f"f{found.dtype.itemsize // 2}"}.get(found.dtype.kind, found.dtype)
    found, expected = found.view(part), expected.view(part)
    bits = f"u{found.dtype.itemsize}"
    differ = found.view(bits) != expected.view(bits)
    if found.dtype.kind not in "biumM":
        differ &= ~(np.isnan(found) & np.isnan(expected))
    assert not differ.any(), (found[differ][:3], expected[differ][:3])


def has(dtype, op):
    if dtype.kind in "mM":
        return op in {"min", "max"} or (dtype.kind == "m" and op == "sum")
    if dtype.kind == "c":
        return op in {"sum", "prod"}
    if op in {"band", "bor", "bxor"}:
        return dtype.kind in "biu"
    return True


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("op", [op for op in OPS if op != "avg"])
@pytest.mark.parametrize("name", [*DTYPES, *HOST_ONLY])
def test_a_kernel_is_its_numpy_twin(name, op, variant):
    dtype = np.dtype(HOST_ONLY[name]) if name in HOST_ONLY else dtype_of(name)
    if not has(dtype, op):
        with pytest.raises(TypeError, match=f"op '{op}' is not defined for"):
            reduction(dtype, op, variant)
        return
    kernel = reduction(dtype, op, variant)
    rng = np.random.default_rng(5)
    for count in COUNTS:
        for n in (1, 2, 3, 5):
            arrays = [random_bits(rng, dtype, count) for _ in range(n)]
            if dtype.kind == "c" and op == "prod":  # inf * nan has no one answer
                arrays = [rng.integers(-3, 4, count).astype(dtype) for _ in range(n)]
            expected = twin(arrays, op)
            assert_same_bits(kernel(np.empty_like(arrays[0]), arrays), expected)
            assert_same_bits(kernel(arrays[-1], arrays), expected)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", *FLOAT8])
def test_small_floats_are_exact_for_every_pair_of_the_hard_cases(name, variant):
    dtype = dtype_of(name)
    every = np.arange(256 ** min(dtype.itemsize, 2), dtype=f"u{dtype.itemsize}")
    a = np.repeat(every, 256) if dtype.itemsize == 1 else every
    b = np.tile(every, 256) if dtype.itemsize == 1 else every[::-1].copy()
    a, b = a.view(dtype), b.view(dtype)
    for op in ("sum", "prod"):
        found = reduction(dtype, op, variant)(np.empty_like(a), [a, b])
        assert_same_bits(found, twin([a, b], op))


def test_a_half_accumulates_in_float32_within_a_combine():
    """1 + 2**-11 is 1 in float16; only with float32 do two such halves count."""
    arrays = [np.array([x], np.float16) for x in (1, 2**-11, 2**-11)]
    assert reduction(arrays[0].dtype, "sum")(np.empty_like(arrays[0]), arrays) > 1


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "bool"])
def test_a_mean_is_the_sum_divided(name):
    dtype = dtype_of(name)
    values = [3, 2, 2] if dtype.kind == "u" or name in FLOAT8 else [-3, -2, -2]
    arrays = [np.full(700, value, dtype) for value in values]
    found = reduction(dtype, "avg")(np.empty_like(arrays[0]), arrays, 3)
    total = sum(values)
    mean = total // 3 if dtype.kind in "iu" else np.asarray(total / 3).astype(dtype)
    tolerance = 1e-6 if dtype.kind in "fc" and dtype.itemsize >= 4 else 0
    np.testing.assert_allclose(
        found.astype(complex), np.full(700, mean).astype(complex), rtol=tolerance
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", [n for n in DTYPES if "int" in n])
def test_a_mean_of_integers_is_rounded_down(name, variant):
    dtype = dtype_of(name)
    rng = np.random.default_rng(dtype.itemsize)
    ends = np.iinfo(dtype)
    for inputs in (1, 2, 3, 4, 5, 8):
        arrays = [random_bits(rng, dtype, 1100) for _ in range(inputs)]
        arrays[0][:4] = ends.max, ends.min, ends.max - 1, ends.min + 1
        arrays[1:] = [np.where(np.arange(1100) < 4, 0, a) for a in arrays[1:]]
        total = sum(arrays[1:], arrays[0].copy()).astype(dtype)
        for divisor in (1, 2, 3, 7, 1000, 12_345_678, 2**31 - 1):
            found = reduction(dtype, "avg", variant)(total.copy(), arrays, divisor)
            mean = [int(value) // divisor for value in total]
            assert found.tolist() == mean, (inputs, divisor)


def test_integers_wrap_around():
    big = np.array([2**31 - 1], np.int32)
    assert reduction(big.dtype, "sum")(big.copy(), [big, big]) == -2


def test_booleans_stay_booleans():
    yes = np.array([True])
    assert reduction(yes.dtype, "sum")(yes.copy(), [yes, yes]).view(np.uint8) == 1


@pytest.mark.parametrize("op", ["SUM", "add", np.add, "Sum"])
def test_an_op_goes_by_many_names(op):
    assert op_of(op, "allreduce") == "sum"


@pytest.mark.parametrize("op", ["plus", 3, None])
def test_an_unknown_op_lists_the_choices(op):
    with pytest.raises(ValueError, match="choose one of sum, prod, min, max"):
        op_of(op, "allreduce")
