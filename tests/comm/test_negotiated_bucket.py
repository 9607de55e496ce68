"""Buckets that negotiate: any order on each rank, one order of calls on all."""

import logging
import random
import threading
import time

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo import (
    CollalgoError,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
    spawn,
    threads,
)
from collalgo.comm.current import runner_of
from collalgo.comm.negotiation import CYCLE_SECONDS, Coordinator, Signature
from collalgo.comm.negotiator import JsonMessages

pytestmark = pytest.mark.parallel

DTYPES = ("float32", "int64", "float16")

# ---- what rank 0 decides


@given(
    st.integers(1, 17),
    st.lists(st.tuples(st.sampled_from(DTYPES), st.integers(0, 50)), max_size=30),
    st.integers(1, 300),
    st.randoms(use_true_random=False),
)
def test_each_array_is_reduced_once_after_all_ranks_have_added_it(
    size, arrays, limit, chance
):
    coordinator = Coordinator(size, limit, 60.0, 300.0)
    events = [(r, number) for r in range(size) for number in range(len(arrays))]
    chance.shuffle(events)
    added = [set() for _ in arrays]
    calls, now = [], 0.0
    for rank, number in events:
        dtype, count = arrays[number]
        signature = Signature(dtype, count)
        coordinator.add(rank, str(number), signature, 4 * count, now)
        added[number].add(rank)
        now += chance.choice([0.0, CYCLE_SECONDS / 3, 2 * CYCLE_SECONDS])
        for names in coordinator.calls(now):
            assert all(len(added[int(name)]) == size for name in names)
            calls.append(names)
    left = coordinator.seconds_left(now)
    assert left is None or left <= 1.001 * CYCLE_SECONDS
    calls += coordinator.calls(now + 2 * CYCLE_SECONDS)
    assert sorted(int(name) for names in calls for name in names) == [
        *range(len(arrays))
    ]
    for names in calls:
        several = [arrays[int(name)] for name in names]
        assert len({dtype for dtype, _ in several}) == 1
        total = 4 * sum(count for _, count in several)
        assert total <= limit or len(names) == 1
    assert coordinator.failure is None
    assert not coordinator.ended
    for rank in range(size):
        coordinator.leave(rank, "")
    assert coordinator.ended


def test_arrays_of_one_cycle_share_calls_and_no_call_is_begun_early():
    coordinator = Coordinator(1, 100, 60.0, 300.0)
    for name, nbytes in (("a", 60), ("b", 30), ("c", 60), ("d", 500)):
        coordinator.add(0, name, Signature("float32", 1), nbytes, 0.0)
    assert list(coordinator.calls(CYCLE_SECONDS / 2)) == []
    assert list(coordinator.calls(CYCLE_SECONDS)) == [["a", "b"], ["c"], ["d"]]
    assert coordinator.seconds_left(9.0) is None


def test_ranks_that_others_wait_for_are_reported_then_an_error(caplog):
    coordinator = Coordinator(4, 100, 10.0, 25.0)
    for number in range(7):
        for rank in range(number % 3 + 1):
            coordinator.add(rank, f"w{number}", Signature("f4", 1), 4, 0.0)
    with caplog.at_level(logging.WARNING, "collalgo"):
        coordinator.look(9.0)
        assert not caplog.records
        coordinator.look(10.0)
        coordinator.look(11.0)
    (record,) = caplog.records
    text = record.getMessage()
    assert "have waited for others for 10 s" in text
    assert "'w1': added by ranks [0, 1], not by ranks [2, 3]" in text
    assert "and 2 more" in text
    assert coordinator.failure is None
    coordinator.look(25.0)
    assert coordinator.failure.kind == "timeout"
    assert coordinator.failure.missing == [1, 2, 3]
    assert "'w0', 'w1'" in coordinator.failure.text


# ---- on ranks


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
        with failing(MismatchError, r"rank \d added 'w' with \d elements of .*f8 but"):
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
        with pytest.raises(ValueError, match=r"limit is 0.*from 1 to"):
            comm.bucket(negotiate=True, limit=0)
        with pytest.raises(ValueError, match="need seconds above 0"):
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
