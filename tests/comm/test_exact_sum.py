"""Sums of several contributions: what is added exactly, and what is refused."""

import re

import ml_dtypes
import numpy as np
import pytest

from collalgo import ExactSum, MismatchError, threads


@pytest.mark.parametrize(
    ("sum_dtype", "dtype"),
    [
        ("f4", "f8"),
        ("f4", "c8"),
        ("f8", "c16"),
        ("f4", "i4"),
        ("f8", "i8"),
        ("f8", "u8"),
        ("f8", "g"),
        ("f8", "m8[s]"),
        ("f2", ml_dtypes.bfloat16),
        (ml_dtypes.float8_e4m3fn, "i1"),
    ],
)
def test_arrays_that_would_be_rounded_are_refused(sum_dtype, dtype):
    total = ExactSum(2, sum_dtype)
    name = re.escape(str(np.dtype(dtype)))
    words = rf"ExactSum\.add: got an array of {name}, .*pass x\.astype\("
    for value in (
        np.zeros(2, dtype),
        [np.zeros((), dtype)] * 2,
        list(np.zeros(2, dtype)),
    ):
        with pytest.raises(TypeError, match=words):
            total.add(value)
    assert total.value().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("sum_dtype", "dtype"),
    [
        ("f4", "i2"),
        ("f4", ">f2"),
        ("f4", ml_dtypes.bfloat16),
        ("f8", "u4"),
        ("f8", ">f4"),
        ("f8", "?"),
        ("c8", "f4"),
        ("c16", "c8"),
        (ml_dtypes.bfloat16, "u1"),
    ],
)
def test_arrays_of_narrower_dtypes_are_added(sum_dtype, dtype):
    total, values = ExactSum(3, sum_dtype), np.array([0, 1, 1]).astype(dtype)
    for value in (values, list(values), tuple(values), memoryview(np.ones(3, "i1"))):
        total.add(value)
    assert total.value().astype("c16").tolist() == [1, 4, 4]


def test_numbers_of_python_are_rounded_to_the_dtype():
    total = ExactSum((2, 1), "f4")
    total.add([[0.1], (2,)])
    assert total.value().tolist() == [[float(np.float32(0.1))], [2.0]]
    one = ExactSum((), "c8")
    one.add(1j)
    assert one.value() == 1j
    for wrong in (1j, 10**400):
        with pytest.raises(
            TypeError, match=r"ExactSum\.add: .* is not a value of float32"
        ):
            total.add([[wrong], [2]])


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (np.ma.array([1.0, 2.0], mask=[0, 1]), TypeError, "calls ignore masks"),
        ([np.ma.masked, 1.0], TypeError, "calls ignore masks"),
        ("ab", TypeError, "needs an array"),
        (None, TypeError, "needs an array"),
        ([[1.0, 2.0], [1.0]], ValueError, "different shapes"),
        (np.zeros(3), ValueError, r"has the shape \(3,\)"),
        ([], ValueError, r"has the shape \(0,\)"),
    ],
)
def test_what_has_no_such_elements_is_refused(wrong, kind, words):
    total = ExactSum(2, float)
    with pytest.raises(kind, match=rf"ExactSum\.add: .*{words}"):
        total.add(wrong)


@pytest.mark.parametrize("shape", [-1, (2, -1), 2**63, (2**40, 2**40), (1,) * 99, 1.5])
def test_shapes_of_no_array_are_refused(shape):
    with pytest.raises((ValueError, TypeError), match=r"ExactSum: "):
        ExactSum(shape, float)


def test_sums_that_differ_fail_on_all_ranks_under_the_number_of_the_call():
    def on_each_rank(comm):
        rank = comm.rank
        with pytest.raises(MismatchError) as caught:
            ExactSum((3 + rank // 2,), "f4").allreduce(comm)
        words = r"ExactSum.allreduce #1: rank 2 .* 4 elements of float32 .* 3 elements"
        caught.match(words)
        assert caught.value.missing == (2,)
        ExactSum(3, "f4").allreduce(comm)
        with pytest.raises(MismatchError, match=r"ExactSum.allreduce #2: rank 1 has a"):
            ExactSum(3, "f8" if rank == 1 else "f4").allreduce(comm)
        with pytest.raises(MismatchError, match=r"call #2: .*ExactSum.allreduce"):
            ExactSum(3, "f4").allreduce(comm) if rank else comm.barrier()

    threads(on_each_rank, 3)
