"""The calls take arrays of every layout and library."""

import array
from time import sleep

import ml_dtypes
import numpy as np
import pytest

import collalgo
from collalgo import threads


class FromDLPack:
    """An array of another library, which speaks nothing but DLPack."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __dlpack__(self, **how):
        return self.wrapped.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.wrapped.__dlpack_device__()


def test_allreduce_works_in_place_and_returns_its_array():
    def on_each_rank(comm):
        x = np.arange(5.0) + comm.rank
        assert collalgo.allreduce(x, comm) is x
        return x

    for result in threads(on_each_rank, 3):
        np.testing.assert_array_equal(result, 3 * np.arange(5.0) + 3)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x.reshape(4, 5).T,
        lambda x: x.reshape(4, 5)[:, 1:3],
        lambda x: x[3:3],
        lambda x: np.asfortranarray(x.reshape(4, 5)),
        lambda x: x.reshape(()) if x.size == 1 else x[0, ...],
    ],
)
def test_arrays_of_every_layout_are_right(view):
    def on_each_rank(comm):
        x = np.arange(20.0) * (comm.rank + 1)
        part = view(x)
        before = part.copy()
        result = comm.allreduce(part)
        assert result is part
        np.testing.assert_array_equal(part, before / (comm.rank + 1) * 6)
        blocks = comm.allgather(before)
        np.testing.assert_array_equal(blocks[2], before / (comm.rank + 1) * 3)

    threads(on_each_rank, 3)


def test_a_misaligned_array_is_right():
    def on_each_rank(comm):
        raw = np.zeros(33, np.uint8)
        x = raw[1:].view(np.float64)
        x[...] = comm.rank + 1
        assert not x.flags.aligned
        comm.allreduce(x)
        assert (x == 3).all()

    threads(on_each_rank, 2)


def test_an_output_that_is_not_contiguous_is_right():
    def on_each_rank(comm):
        whole = np.zeros((4, 6), np.float32)
        out = whole[:, ::2]
        comm.allreduce(np.ones((4, 3), np.float32), out=out)
        assert (out == 2).all()
        assert (whole[:, 1::2] == 0).all()

    threads(on_each_rank, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(b"\1\2"),
        lambda: array.array("d", [1, 2]),
        lambda: memoryview(bytearray(b"\1\2")),
        lambda: FromDLPack(np.array([1.0, 2.0])),
    ],
)
def test_arrays_of_other_libraries_are_reduced_in_their_own_memory(make):
    def on_each_rank(comm):
        buf = make()
        assert comm.allreduce(buf) is buf
        return np.asarray(buf.wrapped if isinstance(buf, FromDLPack) else buf).tolist()

    assert threads(on_each_rank, 2) == [[2, 4]] * 2


def test_a_scalar_array_is_an_array():
    assert threads(lambda c: c.allreduce(np.array(2.0)).item(), 3) == [6.0] * 3
    assert threads(lambda c: c.allgather(np.array(c.rank)).tolist(), 2) == [[0, 1]] * 2


@pytest.mark.slow
def test_big_counts_do_not_overflow(alone):
    """More than 2**31 elements, without the memory for more than one copy."""
    big = np.zeros(2**31 + 3, np.int8)
    big[-1] = 5
    out = np.empty_like(big)
    assert alone.allreduce(big, out=out)[-1] == 5


def test_a_read_only_array_may_be_read():
    def on_each_rank(comm):
        x = np.ones(3)
        x.flags.writeable = False
        assert (comm.allreduce(x, out=np.empty(3)) == 2).all()
        assert (comm.allgather(x) == 1).all()
        if comm.rank == 0:
            comm.broadcast(x, 0)
        else:
            comm.broadcast(np.zeros(3), 0)

    threads(on_each_rank, 2)


def test_bfloat16_is_reduced():
    def on_each_rank(comm):
        return comm.allreduce(np.ones(100, ml_dtypes.bfloat16)).astype(float).sum()

    assert threads(on_each_rank, 3) == [300] * 3


@pytest.mark.parametrize("offset", [0, 1, 8, 16, 31, 32, 63])
def test_copies_are_right_wherever_an_array_lies_in_its_page(offset):
    def on_each_rank(comm):
        for count in (2047, 2048, 2049, 2304, 70_000):
            page = np.zeros(count + 8192, np.uint8)
            start = -page.ctypes.data % 4096 + offset
            x = page[start : start + count]
            x[:] = np.arange(count) % 251 if comm.rank == 0 else 7
            comm.broadcast(x)
            assert (x == np.arange(count) % 251).all()
            assert page[:start].sum() == page[start + count :].sum() == 0

    threads(on_each_rank, 2)


def test_what_no_message_brings_is_copied_while_waiting():
    out = np.zeros((2, 100_000))

    def on_each_rank(comm):
        mine = np.full(out.shape[1], comm.rank + 1.0)
        if comm.rank == 0:
            comm.allgather(mine, out=out)
            return
        for _ in range(1000):  # rank 0 waits for me, with its own block to copy
            if out[0, 0]:
                break
            sleep(0.01)
        assert out[0, 0] == 1
        comm.allgather(mine)

    threads(on_each_rank, 2)
    assert (out == [[1], [2]]).all()
