"""Buckets: the same sums as one by one, in fewer calls."""

import weakref

import numpy as np
import pytest

import collalgo
from collalgo import CommunicatorClosed, MismatchError, threads
from collalgo.comm.current import runner_of


def arrays_of(rank):
    """Arrays of random shapes and two dtypes, which are the same on all ranks."""
    dice = np.random.default_rng(7)
    shapes = [tuple(dice.integers(0, 9, dice.integers(0, 4))) for _ in range(60)]
    dtypes = dice.choice(["float32", "int64"], 60, p=[0.9, 0.1])
    return [
        np.full(shape, rank + number, dtype)
        for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("limit", [1, 100, 5000, 1 << 20])
def test_what_is_collected_is_reduced(size, limit):
    def on_each_rank(comm):
        arrays, table = arrays_of(comm.rank), np.ones((8, 8))
        before = runner_of(comm).recorder.count
        with comm.bucket(limit=limit) as bucket:
            given = [bucket.allreduce(array) for array in arrays]
            strided = bucket.allreduce(table[:, ::2])
            assert given[3].wait() is arrays[3]
            bucket.flush()
        for number, array in enumerate(arrays):
            expected = size * number + size * (size - 1) // 2
            assert (array == expected).all(), number
        assert (table[:, ::2] == size).all()
        assert (table[:, 1::2] == 1).all()
        assert strided.done()
        calls = runner_of(comm).recorder.count - before
        assert calls <= (61 if limit == 1 else 40)

    threads(on_each_rank, size, timeout=60)


def test_another_op_and_what_is_refused():
    def on_each_rank(comm):
        x, y = np.array([comm.rank]), np.array([-comm.rank])
        with comm.bucket("max") as bucket:
            bucket.allreduce(x)
            bucket.allreduce(y)
        assert (x[0], y[0]) == (comm.size - 1, 0)
        with pytest.raises(collalgo.CollalgoError, match="is closed"):
            bucket.allreduce(x)
        with pytest.raises(ValueError, match=r"limit is 0.*from 1 to 2\*\*63 - 1"):
            comm.bucket(limit=0)
        x.flags.writeable = False
        with pytest.raises(ValueError, match="buf is read-only"):
            comm.bucket().allreduce(x)
        with pytest.raises(KeyError), comm.bucket() as bucket:
            bucket.allreduce(y)
            raise KeyError

    threads(on_each_rank, 3, timeout=60)


def test_a_negotiated_bucket_drops_the_calls_that_have_ended():
    def on_each_rank(comm):
        with comm.bucket(negotiate=True) as bucket:
            for number in range(50):
                array = np.ones(3)
                bucket.allreduce(array, "x").wait()
                arrays = weakref.ref(array)
                del array
                assert number == 0 or arrays() is None

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("other", [[5, 3], [8], [4, 4], [3, 4, 1], [3, 5, 0]])
def test_ranks_that_add_other_arrays_of_the_same_total_are_told(size, other):
    def on_each_rank(comm):
        bucket = comm.bucket()
        lengths = other if comm.rank == size - 1 else [3, 5]
        for number in range(2):  # all alike, then not
            for length in lengths if number else [1, 2]:
                bucket.allreduce(np.ones(length))
            if number:
                with pytest.raises(MismatchError, match=r"arrays of 3\+5 elements"):
                    bucket.wait()
            else:
                bucket.wait()
        return True

    assert all(threads(on_each_rank, size))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8"])
@pytest.mark.parametrize("op", ["avg", "mean", "average"])
def test_a_mean_of_integers_does_not_wrap_whatever_it_is_called(size, dtype, op):
    most = np.iinfo(dtype).max

    def on_each_rank(comm):
        arrays = [np.full(length, most, dtype) for length in (3, 5)]
        with comm.bucket(op=op) as bucket:
            for array in arrays:
                bucket.allreduce(array)
        return all((array == most).all() for array in arrays)

    assert all(threads(on_each_rank, size))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_means_of_integers_of_other_arrays_are_told(size):
    def on_each_rank(comm):
        bucket = comm.bucket(op="mean")
        for length in [5, 3] if comm.rank else [3, 5]:
            bucket.allreduce(np.ones(length, np.int16))
        with pytest.raises(MismatchError, match=r"arrays of 3\+5 elements"):
            bucket.wait()
        return True

    assert all(threads(on_each_rank, size))


def test_a_closed_communicator_has_no_bucket():
    def on_each_rank(comm):
        bucket = comm.bucket()
        comm.close()
        for call in (
            lambda: bucket.allreduce(np.ones(3)),
            comm.bucket,
            lambda: comm.bucket(negotiate=True),
        ):
            with pytest.raises(CommunicatorClosed, match=r"^(bucket|allreduce): this"):
                call()

    threads(on_each_rank, 2)


def test_arrays_in_a_bucket_that_is_dropped_are_told(caplog):
    def dropped(comm):
        bucket = comm.bucket()
        for _ in range(3):
            bucket.allreduce(np.ones(2))

    threads(dropped, 1)
    words = (
        "rank 0 dropped a bucket with 3 arrays that were not reduced, the first added"
    )
    assert [words in text for text in caplog.messages] == [True]
    assert f"{__file__}:" in caplog.text


def test_arrays_that_are_reduced_or_given_up_are_not_told(caplog):
    def on_each_rank(comm):
        with comm.bucket() as bucket:
            bucket.allreduce(np.ones(2))
        with pytest.raises(KeyError), comm.bucket() as bucket:
            bucket.allreduce(np.ones(2))
            raise KeyError
        bucket = comm.bucket()
        bucket.allreduce(np.ones(2)).wait()

    threads(on_each_rank, 2)
    assert not caplog.messages
