"""Nothing hangs: mismatches, timeouts and deaths are raised on every rank, with names.

Deadlines in this file bound how long a failure may take to be noticed, which is part of
what the library promises; they do not measure speed.
"""

import os
import signal
import time
from threading import Barrier, Timer

import numpy as np
import pytest

from collalgo import (
    CollectiveTimeout,
    CommunicatorClosed,
    MismatchError,
    PeerFailed,
    threads,
)
from collalgo.bootstrap.timeouts import checked_timeout

pytestmark = pytest.mark.deadline


def test_a_broken_communicator_keeps_saying_why():
    def on_each_rank(comm):
        messages = set()
        for _ in range(3):
            with pytest.raises(MismatchError) as caught:
                comm.allreduce(np.ones(1 + comm.rank))
            messages.add(str(caught.value))
        assert len(messages) == 1

    threads(on_each_rank, 2)


def test_a_rank_that_never_calls_is_named_with_its_last_call():
    given_up = Barrier(3, timeout=30)

    def on_each_rank(comm):
        comm.allreduce(np.ones(7))
        if comm.rank == 1:
            given_up.wait()
        with pytest.raises(CollectiveTimeout) as caught:
            comm.allreduce(np.ones(3), "max", timeout=0.4)
        if comm.rank != 1:
            given_up.wait()
        error = caught.value
        found = error.missing, error.sequence, error.collective
        assert found == ((1,), 2, "allreduce")
        return str(error)

    (message,) = set(threads(on_each_rank, 3))
    last = "last call was allreduce #1 (7 float64, sum"
    assert f"waited 0.4 s for rank 1, whose {last}" in message
    assert "or raise the timeout (COLLALGO_TIMEOUT sets the default)" in message


def test_a_rank_that_never_called_anything_is_named():
    given_up = Barrier(2, timeout=30)

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout, match="which has made no call"):
                comm.barrier(timeout=0.2)
        given_up.wait()

    threads(on_each_rank, 2)


@pytest.mark.parametrize("seconds", [np.ones(1), "1", None, [1.0]])
def test_a_timeout_that_is_no_number_is_refused(seconds):
    with pytest.raises(TypeError, match=r"limit is .*; pass seconds above 0"):
        checked_timeout(seconds, "limit")
    assert checked_timeout(np.float32(0.5)) == checked_timeout(np.array(0.5)) == 0.5


def test_a_call_that_waits_for_ranks_has_the_dtype_of_its_array():
    given_up = Barrier(2, timeout=30)

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout, match=r"\(3 float32, argmin, "):
                comm.allreduce(np.ones(3, "f4"), "argmin", timeout=0.2)
        given_up.wait()

    threads(on_each_rank, 2)


def test_the_timeout_of_the_environment_counts(monkeypatch):
    monkeypatch.setenv("COLLALGO_TIMEOUT", "0.2")
    given_up = Barrier(2, timeout=30)

    def on_each_rank(comm):
        assert comm.timeout == 0.2
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout):
                comm.barrier()
        given_up.wait()

    threads(on_each_rank, 2)
    for value in ("soon", "-1", "0", "nan"):
        monkeypatch.setenv("COLLALGO_TIMEOUT", value)
        with pytest.raises(ValueError, match=r"COLLALGO_TIMEOUT=.* is not a number of"):
            threads(lambda comm: None, 1)


def test_an_exception_on_one_rank_reaches_the_others_with_its_text():
    seen = []

    def on_each_rank(comm):
        if comm.rank == 1:
            raise ZeroDivisionError("planted")
        with pytest.raises(PeerFailed) as caught:
            comm.barrier()
        seen.append((caught.value.missing, str(caught.value)))

    with pytest.raises(ZeroDivisionError, match="planted"):
        threads(on_each_rank, 3)
    for missing, message in seen:
        assert missing == (1,)
        assert "rank 1 is gone: ZeroDivisionError: planted (at test_fail" in message
    assert len(seen) == 2


def test_a_rank_that_ends_without_a_call_is_told_from_one_that_failed():
    def on_each_rank(comm):
        comm.allreduce(np.ones(7))
        if comm.rank == 2:
            return None
        with pytest.raises(PeerFailed) as caught:
            comm.barrier()
        return str(caught.value)

    *messages, _ = threads(on_each_rank, 3)
    for message in messages:
        assert message.startswith(
            "barrier #2: rank 2 is gone: its communicator was closed, or its program "
            "ended, before this call; its last call was allreduce #1 (7 float64, sum"
        )
        assert message.endswith(
            "); every rank must make the same calls in the same order"
        )


def test_a_rank_that_closes_has_done_its_part_of_earlier_calls():
    def on_each_rank(comm):
        for _ in range(20):
            part = comm.dup()
            x = np.ones(10_000)
            part.broadcast(x, root=0)
            if comm.rank:
                time.sleep(0.001)
            part.allreduce(x)
            part.close()

    threads(on_each_rank, 3)


def test_a_communicator_closed_by_another_thread_fails_the_call():
    def on_each_rank(comm):
        if comm.rank == 0:
            Timer(0.1, comm.close).start()
            told = CommunicatorClosed, "communicator is closed|closed this communicator"
        else:
            time.sleep(0.5)
            told = PeerFailed, "rank 0 is gone: its communicator was"
        with pytest.raises(told[0], match=told[1]):
            comm.barrier()

    threads(on_each_rank, 2)


@pytest.fixture
def _interruptible():
    """Heed Ctrl-C, which processes in the background are started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_ends_threads_that_wait():
    outcomes = []

    def on_each_rank(comm):
        comm.barrier()
        if comm.rank == 0:
            Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            time.sleep(1)
        try:
            comm.barrier(timeout=30)
        except PeerFailed as error:
            outcomes.append(str(error))

    with pytest.raises(KeyboardInterrupt):
        threads(on_each_rank, 3)
    end = time.monotonic() + 5
    while len(outcomes) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    assert any("interrupted by KeyboardInterrupt" in outcome for outcome in outcomes)
