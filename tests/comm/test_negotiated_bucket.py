"""Buckets that negotiate: any order on each rank, one order of calls on all."""

import logging
import random
import threading
import time

import numpy as np
import pytest

from collalgo import (
    CollalgoError,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
    spawn,
    threads,
)
from collalgo.comm.current import runner_of
from collalgo.comm.negotiator import JsonMessages

DTYPES = ("float32", "int64", "float16")


def named_arrays(comm, count=40):
    dice = np.random.default_rng(3)
    return {
        f"layer{number}": np.full(dice.integers(0, 400), comm.rank + number, dtype)
        for number, dtype in enumerate(dice.choice(DTYPES[:2], count))
    }


def in_any_order(comm, rounds=3):
    chance = random.Random(comm.rank)
    with comm.bucket(negotiate=True, limit=2000) as bucket:
        before = runner_of(comm).recorder.count
        for _ in range(rounds):
            arrays = named_arrays(comm)
            names = list(arrays)
            chance.shuffle(names)
            for name in names:
                call = bucket.allreduce(arrays[name], name)
            assert call.wait() is arrays[names[-1]]
            assert call.done()
            comm.barrier()  # of the user, beside the calls of the bucket
            bucket.wait()
            for number, array in enumerate(arrays.values()):
                expected = comm.size * number + comm.size * (comm.size - 1) // 2
                assert (array == expected).all(), number
    return runner_of(comm).recorder.count - before


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_each_rank_adds_in_an_order_of_its_own(size):
    assert threads(in_any_order, size, timeout=60) == [3] * size


def test_processes_add_in_orders_of_their_own():
    assert spawn(in_any_order, 3, timeout=60) == [3] * 3


def test_dtypes_of_one_size_are_reduced_apart():
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def on_each_rank(comm):
        x, y = np.ones(3, ml_dtypes.float8_e5m2), np.ones(3, ml_dtypes.float8_e4m3fn)
        y += 0.125  # which the other has no bits for
        with comm.bucket(negotiate=True) as bucket:
            bucket.allreduce(x, "x")
            bucket.allreduce(y, "y")
        return float(y[0])

    assert threads(on_each_rank, 1, timeout=60) == [1.125]


def test_a_message_that_is_there_needs_no_wait():
    """As when calls are due at once."""

    def on_each_rank(comm):
        messages = JsonMessages(comm)
        assert messages.receive(None, 0, 0.0) is None
        messages.send({"a": [1, "two"]}, comm.rank, 0)
        assert messages.receive(None, 0, 0.0) == (comm.rank, {"a": [1, "two"]})
        assert messages.receive(None, 0, 0.01) is None

    threads(on_each_rank, 2, timeout=60)


def failing(kind, match):
    return pytest.raises(kind, match=match)


def test_arrays_of_one_name_that_differ_are_an_error_on_all_ranks():
    def on_each_rank(comm):
        bucket = comm.bucket(negotiate=True)
        with failing(
            MismatchError, r"rank \d added 'w' with \d elements of float64 but"
        ):
            # Also here, if the other two have been found to differ already.
            bucket.allreduce(np.ones(3 + comm.rank // 2), "w").wait()
        with failing(MismatchError, "added 'w'"):
            bucket.allreduce(np.ones(3), "v")
        with failing(MismatchError, "added 'w'"):
            bucket.close()
        with failing(CollalgoError, "is closed"):
            bucket.allreduce(np.ones(3), "v")
        return float(comm.allreduce(np.ones(1))[0])

    assert threads(on_each_rank, 3, timeout=60) == [3.0] * 3


def test_who_closes_without_an_array_that_others_wait_for_is_named():
    def on_each_rank(comm):
        with (
            failing(PeerFailed, r"'w', but rank 2 has closed the bucket") as caught,
            comm.bucket(negotiate=True) as bucket,
        ):
            if comm.rank != 2:
                bucket.allreduce(np.ones(3), "w")
        assert caught.value.missing == (2,)

    threads(on_each_rank, 3, timeout=60)


def test_who_leaves_by_an_error_is_named_with_it():
    def on_each_rank(comm):
        kind, match = (
            (KeyError, "planted") if comm.rank == 1 else (PeerFailed, "rank 1.*planted")
        )
        with failing(kind, match), comm.bucket(negotiate=True) as bucket:
            if comm.rank == 1:
                raise KeyError("planted")
            bucket.allreduce(np.ones(3), "w")

    threads(on_each_rank, 3, timeout=60)


def test_a_rank_that_does_not_add_an_array_is_reported_and_a_timeout(caplog):
    released = threading.Event()

    def on_each_rank(comm):
        bucket = comm.bucket(negotiate=True, stall_seconds=0.2)
        if comm.rank == 1:
            released.wait(30)
        else:
            call = bucket.allreduce(np.ones(3), "w")
            with pytest.raises(TimeoutError, match=r"not begun .* in 0\.1 s"):
                call.wait(0.1)
            with failing(CollectiveTimeout, r"ranks \[1\] have not added 'w'") as e:
                call.wait()
            assert e.value.missing == (1,)
            released.set()
        with failing(CollectiveTimeout, "have not added 'w'"):
            bucket.close()

    with caplog.at_level(logging.WARNING, "collalgo"):
        threads(on_each_rank, 3, timeout=2)
    assert "'w': added by ranks [0, 2], not by ranks [1]" in caplog.text


def test_a_stall_is_reported_while_other_arrays_go_on(caplog):
    def on_each_rank(comm):
        with comm.bucket(negotiate=True, stall_seconds=0.1) as bucket:
            if comm.rank:
                late = bucket.allreduce(np.ones(3), "late")
            end = comm.broadcast(np.array([time.monotonic() + 1.2]))[0]
            number = 0
            while comm.broadcast(np.array([time.monotonic() < end]))[0]:
                bucket.allreduce(np.ones(3), f"w{number}").wait()
                number += 1
            if not comm.rank:
                late = bucket.allreduce(np.ones(3), "late")
            assert (late.wait() == 2).all()

    with caplog.at_level(logging.WARNING, "collalgo"):
        threads(on_each_rank, 2, timeout=60)
    assert "'late': added by ranks [1], not by ranks [0]" in caplog.text


def test_what_a_bucket_refuses():
    def on_each_rank(comm):
        x = np.ones(10)
        with comm.bucket(negotiate=True) as bucket:
            with pytest.raises(ValueError, match="name is ''; pass text"):
                bucket.allreduce(x, "")
            with pytest.raises(ValueError, match="name is None"):
                bucket.allreduce(x, None)
            if comm.rank:  # so that the first stays there
                comm.barrier()
            bucket.allreduce(x[:6], "w")
            if not comm.rank:
                with pytest.raises(ValueError, match="'w' is in this bucket already"):
                    bucket.allreduce(np.ones(6), "w")
                with pytest.raises(ValueError, match="'v' shares memory with an"):
                    bucket.allreduce(x[5:], "v")
                comm.barrier()
            bucket.wait()
            bucket.allreduce(x[5:], "v")
        assert x.tolist() == [2.0] * 5 + [4.0] + [2.0] * 4

    threads(on_each_rank, 2, timeout=60)


def test_the_limits_of_a_bucket_are_above_0():
    def on_each_rank(comm):
        with pytest.raises(ValueError, match=r"limit is 0.*from 1 to"):
            comm.bucket(negotiate=True, limit=0)
        with pytest.raises(ValueError, match=r"^stall_seconds -1"):
            comm.bucket(negotiate=True, stall_seconds=-1)

    threads(on_each_rank, 2, timeout=60)


def test_no_thread_is_left():
    def on_each_rank(comm):
        for _ in range(3):
            with comm.bucket(negotiate=True) as bucket:
                bucket.allreduce(np.ones(3), "w")

    threads(on_each_rank, 3, timeout=60)
    assert not [t for t in threading.enumerate() if t.name == "collalgo bucket"]


def test_a_call_that_cannot_begin_raises_on_all_ranks_that_wait():
    def on_each_rank(comm):
        bucket = comm.bucket("band", negotiate=True)
        call = bucket.allreduce(np.ones(3), "x")
        with pytest.raises((TypeError, ValueError), match="band"):
            call.wait(20)
        del bucket

    threads(on_each_rank, 2, timeout=30)
