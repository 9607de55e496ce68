"""Ops of the user that fail, or do not fit: the error is the same on all ranks."""

import math

import numpy as np
import pytest

from collalgo import MismatchError, Op, OpFailed, threads

LARGE = np.dtype([("m", "u4", (5, 5))])  # of 100 bytes


@pytest.mark.parametrize("dtype", ["f8", LARGE])
@pytest.mark.parametrize("form", ["allreduce", "allreduce_async", "reduce", "scan"])
def test_what_an_op_raises_is_raised_on_all_ranks_and_the_next_call_is_right(
    form, dtype
):
    def failing(_left, _right):
        raise ZeroDivisionError("no such sum")

    def on_each_rank(comm):
        x = np.zeros(4, dtype)
        with pytest.raises(
            (ZeroDivisionError, OpFailed), match="no such sum"
        ) as caught:
            found = getattr(comm, form)(x, Op(failing, commute=True))
            if form.endswith("async"):
                found.wait()
        if caught.type is OpFailed:
            assert caught.value.missing != (comm.rank,)
            assert f" #{caught.value.sequence}: the op raised on" in str(caught.value)
            assert caught.value.sequence == 1
        assert comm.allreduce(np.ones(1))[0] == comm.size
        return caught.type

    assert ZeroDivisionError in threads(on_each_rank, 4, timeout=60)


def test_a_result_of_another_shape_or_dtype_is_refused():
    def on_each_rank(comm):
        for function in (lambda a, b: (a + b)[:1], lambda a, b: a * 1j):
            with pytest.raises(
                (TypeError, OpFailed), match="must return an array like"
            ):
                comm.allreduce(np.ones(4), function)

    threads(on_each_rank, 3, timeout=60)


def test_an_op_that_a_dtype_does_not_have_is_refused_before_any_message():
    def on_each_rank(comm):
        with pytest.raises(TypeError, match=r"allreduce: op 'hypot' .* gives float64"):
            comm.allreduce(np.ones(4, int), np.hypot)
        with pytest.raises(
            TypeError, match="reduce: op 'minloc' needs values with indices"
        ):
            comm.reduce(np.ones(4), "minloc")
        for wrong in (np.sin, np.matmul, np.divmod):
            with pytest.raises(TypeError, match="does not combine two arrays"):
                comm.allreduce(np.ones(4), wrong)
        for wrong in ("median", 3, None):
            with pytest.raises(ValueError, match="or pass a function"):
                comm.allreduce(np.ones(4), wrong)

    threads(on_each_rank, 2, timeout=60)


def test_ranks_that_pass_different_ops_raise_a_mismatch():
    for dtype in (np.dtype("f8"), LARGE):

        def on_each_rank(comm, dtype=dtype):
            op = Op(lambda a, _: a, name=f"op of rank {comm.rank}")
            with pytest.raises(MismatchError, match=r"op 'op of rank [01]'"):
                comm.allreduce(np.zeros(2, dtype), op)

        threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        *((function, "'sum'") for function in (sum, np.sum)),
        *((function, "'max'") for function in (max, np.max, np.amax)),
        *((function, "'min'") for function in (min, np.min, np.amin)),
        *((function, "'avg'") for function in (np.mean, np.average)),
        *((function, "'prod'") for function in (np.prod, math.prod)),
        *((any, "'lor'"), (np.any, "'lor'"), (all, "'land'"), (np.all, "'land'")),
        *((np.add.reduce, "numpy.add"), (np.fmax.accumulate, "numpy.fmax")),
    ],
)
def test_a_function_of_one_array_is_refused_with_the_op_to_pass(function, instead):
    """Python's sum has added the elements of the left array to the right one."""
    with pytest.raises(TypeError, match=f"of one array; pass op={instead}, which"):
        threads(lambda comm: comm.allreduce(np.ones(4), function), 1)


@pytest.mark.parametrize("dtype", ["F", "bfloat16"])
def test_ops_that_find_ranks_report_nothing_of_nan(dtype):
    pytest.importorskip("ml_dtypes")  # which adds bfloat16
    values = np.array([[1, np.nan], [0, 3]]).astype(dtype)

    def on_each_rank(comm):
        with np.errstate(all="raise"):
            return comm.allreduce(values[comm.rank], "argmin").tolist()

    assert threads(on_each_rank, 2, timeout=60) == [[1, 0]] * 2
