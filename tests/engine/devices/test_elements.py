"""The kernels of the device, run on the host thread after thread, against NumPy.

What a device computes on elements is C++ that both compile. Only the launch, and the
instructions for float32 and float16 there, need a device: see test_cuda.py.
"""

import ctypes

import numpy as np
import pytest

from collalgo._kernels.engine.devices import sources
from collalgo.engine.dtypes import DTYPES, FLOAT8
from collalgo.engine.reduction import OPS, reduction
from tests.engine.test_reduction import assert_same_bits, has, random_bits, twin
from tests.support.compiling import (
    ARCHITECTURES,
    check_for_devices,
    for_host,
    instructions_of,
    needs_nvcc,
)
from tests.support.leisure import at_leisure
from tests.support.oracle import dtype_of

SINGLE = [op for op in OPS if op != "avg"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elements")
    return for_host("elements", sources.every_kernel(), folder)


def reduce(library, result, arrays, op, divisor=0, threads=3):
    """As the device does it."""
    pointers = [array.ctypes.data for array in (result, *arrays)]
    kernel = sources.chosen(result.dtype.name, op, pointers)
    inputs = (ctypes.c_uint64 * sources.MOST)(*pointers[1:])
    getattr(library, kernel.name)(
        ctypes.c_void_p(pointers[0]),
        inputs,
        len(arrays),
        ctypes.c_longlong(len(result)),
        ctypes.c_longlong(divisor),
        ctypes.c_longlong(threads),
    )
    return kernel


def placed(array, offset):
    """The same elements at an offset from a multiple of 64 bytes."""
    room = np.empty(array.nbytes + 64 + offset * array.itemsize, np.uint8)
    begin = -room.ctypes.data % 64 + offset * array.itemsize
    found = room[begin : begin + array.nbytes].view(array.dtype)
    found[...] = array
    return found


def operands(rng, dtype, op, count, n):
    if dtype.kind == "c" and op == "prod":  # inf * nan has no one answer
        return [rng.integers(-3, 4, count).astype(dtype) for _ in range(n)]
    return [random_bits(rng, dtype, count) for _ in range(n)]


@pytest.mark.parametrize("op", SINGLE)
@pytest.mark.parametrize("name", DTYPES)
def test_a_kernel_of_the_device_is_its_numpy_twin(library, name, op):
    dtype = dtype_of(name)
    if not has(dtype, op):
        with pytest.raises(TypeError, match=f"op '{op}' is not defined for"):
            sources.kernels(name, op)
        return
    rng = np.random.default_rng(9)
    vector = sources.VECTOR // dtype.itemsize
    counts = (0, 1, 2, 3, 7, 15, 16, 17, 33, 100, 1000)
    for turn, n in enumerate((1, 2, 3, 4, 5, 8, 13)):
        for count in counts[turn % 2 :: 2]:
            offset = int(rng.integers(0, vector + 1))
            arrays = [placed(a, offset) for a in operands(rng, dtype, op, count, n)]
            expected = twin(arrays, op)
            result = placed(np.empty(count, dtype), offset)
            kernel = reduce(library, result, arrays, op)
            assert (kernel.inputs, kernel.width) == (2 * (n == 2), vector)
            assert_same_bits(result, expected)
            reduce(library, arrays[-1], arrays, op, threads=40)
            assert_same_bits(arrays[-1], expected)


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_that_lie_differently_between_two_vectors(library, name):
    dtype = dtype_of(name)
    rng = np.random.default_rng(10)
    for n in (2, 5):
        arrays = [
            placed(a, i) for i, a in enumerate(operands(rng, dtype, "sum", 50, n))
        ]
        result = placed(np.empty(50, dtype), 1)
        kernel = reduce(library, result, arrays, "sum")
        assert kernel.width == 1
        assert_same_bits(result, twin(arrays, "sum"))


@pytest.mark.parametrize("name", ["float16", "bfloat16", *FLOAT8])
def test_small_floats_are_exact_for_every_pair_of_the_hard_cases(library, name):
    dtype = dtype_of(name)
    every = np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}")
    a = np.repeat(every, 256) if dtype.itemsize == 1 else every
    b = np.tile(every, 256) if dtype.itemsize == 1 else every[::-1].copy()
    a, b = placed(a.view(dtype), 0), placed(b.view(dtype), 0)
    for op in ("sum", "prod", "min", "max"):
        result = placed(np.empty_like(a), 0)
        reduce(library, result, [a, b], op)
        assert_same_bits(result, twin([a, b], op))


@pytest.mark.parametrize("name", ["float16", "bfloat16", *FLOAT8])
def test_what_is_rounded_ties_to_even_and_overflows_as_on_the_host(library, name):
    """Means of three: thirds and halves of all sizes, and sums out of range."""
    dtype = dtype_of(name)
    rng = np.random.default_rng(11)
    arrays = [placed(random_bits(rng, dtype, 50_000), 0) for _ in range(3)]
    for divisor in (2, 3, 1000):
        expected = reduction(dtype, "avg")(np.empty_like(arrays[0]), arrays, divisor)
        result = placed(np.empty_like(arrays[0]), 0)
        reduce(library, result, arrays, "sum", divisor)
        assert_same_bits(result, expected)


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bool"])
def test_a_mean_is_that_of_the_host(library, name):
    dtype = dtype_of(name)
    rng = np.random.default_rng(12)
    arrays = [placed(a, 0) for a in operands(rng, dtype, "sum", 1000, 3)]
    expected = reduction(dtype, "avg")(np.empty_like(arrays[0]), arrays, 3)
    result = placed(np.empty_like(arrays[0]), 0)
    reduce(library, result, arrays, "sum", 3)
    assert_same_bits(result, expected)


def test_a_half_is_rounded_once_after_all_inputs(library):
    arrays = [placed(np.full(20, x, np.float16), 0) for x in (1, 2**-11, 2**-11)]
    result = placed(np.empty(20, np.float16), 0)
    reduce(library, result, arrays, "sum")
    assert (result > 1).all()


def test_an_array_within_an_element_is_refused():
    with pytest.raises(ValueError, match="float32 does not begin at a multiple of 4"):
        sources.chosen("float32", "sum", [0, 4, 6])


def test_python_and_the_kernels_agree_on_their_numbers():
    text = sources.source([])
    assert f"constexpr int MOST = {sources.MOST};" in text
    assert f"__launch_bounds__({sources.THREADS})" in text
    text = sources.source([], sources.INTERPRETER_SOURCES)
    assert f"__launch_bounds__({sources.TEAM_THREADS})" in text


SAMPLE = {name: sources.kernels(name, "sum")[1] for name in DTYPES}
SOME = ("bool", "int64", "float32", "float16", "bfloat16", "float8_e4m3", "complex64")


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernels", at_leisure(["some", "sums", "all"], {"some"}))
def test_the_kernels_compile_for_devices(architecture, kernels, tmp_path):
    chosen = {
        "some": [SAMPLE[name] for name in SOME],
        "sums": list(SAMPLE.values()),
        "all": sources.every_kernel(),
    }[kernels]
    check_for_devices(chosen, architecture, tmp_path)


@needs_nvcc
@pytest.mark.parametrize(
    "op", at_leisure(["sum", "prod", "min", "max", "land"], {"sum"})
)
def test_subnormal_numbers_are_none_for_those_who_compile_without_them(op, tmp_path):
    """As CuPy does. Instructions that take them for zeros have a name of their own."""
    names = [name for name in DTYPES if "64" not in name or name == "complex64"]
    floats = [name for name in names if dtype_of(name).kind not in "biu"]
    able = [name for name in floats if has(dtype_of(name), op)]
    chosen = {kernel for name in able for kernel in sources.kernels(name, op)[:2]}
    instructions = instructions_of(chosen, tmp_path, "-ftz=true")
    assert ".rn.f32" in instructions or op in {"min", "max", "land"}
    assert ".ftz" not in instructions
