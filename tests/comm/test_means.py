"""A mean of integers is that of exact sums."""

import numpy as np
import pytest

from collalgo import MismatchError, threads


def means(comm, x, want):
    """The mean of arrays that are alike on all ranks, by every call that reduces."""
    out = np.zeros_like(x)
    yield comm.allreduce(x.copy(), "avg")
    yield comm.allreduce(np.repeat(x, 2)[::2], "mean")
    yield comm.allreduce(x, "avg", out=out)
    found = comm.reduce(x.copy(), "avg", comm.size - 1)
    yield want if found is None else found
    yield comm.reduce_scatter(x, "avg")
    yield comm.reduce_scatter(x, "avg", [len(x)] + [0] * (comm.size - 1))
    twice = x.copy()
    comm.allreduce_async(twice, "avg")
    yield comm.allreduce_async(twice, "avg").wait()
    again = comm.persistent_allreduce(twice, "avg")
    again()
    yield again.start().wait()
    bucket = comm.bucket("avg")
    bucket.allreduce(twice)
    bucket.wait()
    yield twice


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_mean_of_integers_is_right_though_their_sum_exceeds_their_dtype(dtype, size):
    def on_each_rank(comm):
        limits = np.iinfo(dtype)
        for value in (limits.max, limits.min, limits.max - 1, 3):
            x = np.full(2 * size, value, dtype)
            for found in means(comm, x, x):
                assert found.dtype == dtype
                assert (found == value).all()
            assert (x == value).all()

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 16])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_mean_of_integers_is_that_of_exact_sums(dtype, size):
    limits, dice = np.iinfo(dtype), np.random.default_rng(size)
    inputs = dice.integers(limits.min, limits.max, (size, 33), dtype, endpoint=True)
    inputs[:, 0], inputs[:, 1] = limits.min, limits.max
    expected = [sum(map(int, column)) // size for column in inputs.T]

    def on_each_rank(comm):
        x = inputs[comm.rank]
        assert comm.allreduce(x.copy(), "avg").tolist() == expected
        assert comm.allreduce(x.copy(), "avg", algorithm="ring").tolist() == expected
        assert comm.allreduce(x[:1].reshape(()).copy(), "avg") == expected[0]

    threads(on_each_rank, size, timeout=60)


def test_means_of_integers_of_different_dtypes_are_a_mismatch():
    def on_each_rank(comm):
        dtype = np.int64 if comm.rank else np.int32
        with pytest.raises(MismatchError, match=r"allreduce #1: .* op 'avg of "):
            comm.allreduce(np.ones(6, dtype), "avg")
            comm.barrier()

    threads(on_each_rank, 2, timeout=60)


def test_a_mean_of_integers_is_rounded_down():
    def on_each_rank(comm):
        x = np.array([-3, 3, -4, 7], np.int8) + (comm.rank == 0)
        assert comm.allreduce(x, "avg").tolist() == [-3, 3, -4, 7]

    threads(on_each_rank, 2, timeout=60)
