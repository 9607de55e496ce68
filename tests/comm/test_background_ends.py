"""Nothing is left of calls in the background that have ended."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import collalgo
from collalgo import (
    CommunicatorClosed,
    threads,
)

pytestmark = pytest.mark.deadline


def test_closing_ends_what_is_under_way():
    def on_each_rank(comm):
        dup = comm.dup()
        if comm.rank == 0:
            works = [dup.allreduce_async(np.ones(100_000)) for _ in range(5)]
            time.sleep(0.05)
            dup.close()
            for work in works:
                assert isinstance(work.exception(), collalgo.CollalgoError)
            with pytest.raises(CommunicatorClosed):
                works[-1].wait()
            with pytest.raises(CommunicatorClosed, match="closed"):
                dup.allreduce_async(np.ones(3)).wait()
        comm.barrier()

    threads(on_each_rank, 2, timeout=60)


def test_nothing_is_left_of_communicators_with_a_background():
    def on_each_rank(comm):
        for _ in range(20):
            part = comm.dup()
            part.allreduce_async(np.ones(10)).wait()
            dropped = weakref.ref(part)
            del part
        comm.barrier()
        until = time.monotonic() + 10
        while dropped() is not None and time.monotonic() < until:
            gc.collect()
            time.sleep(0.05)
        assert dropped() is None

    before = threading.active_count()
    threads(on_each_rank, 2, timeout=60)
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_arrays_are_released_when_a_call_is_done():
    def on_each_rank(comm):
        x = np.ones(100)
        held = weakref.ref(x)
        comm.allreduce_async(x)
        del x
        until = time.monotonic() + 10
        while held() is not None and time.monotonic() < until:
            time.sleep(0.02)
        assert held() is None

    threads(on_each_rank, 2, timeout=60)


class Slow(bytearray):
    """Memory that takes the GIL away while it is freed, as that of torch does."""

    def __del__(self):
        time.sleep(0.0001)


def test_what_is_released_may_let_other_threads_run():
    def on_each_rank(comm):
        failures = []

        def give():
            try:
                for number in range(400):
                    work = comm.allreduce_async(np.frombuffer(Slow(80), np.uint8))
                    if number % 5 == 4:
                        work.wait()
                    del work
            except BaseException as error:
                failures.append(error)

        givers = [threading.Thread(target=give) for _ in range(3)]
        for giver in givers:
            giver.start()
        for giver in givers:
            giver.join()
        comm.barrier()
        assert not failures

    threads(on_each_rank, 2, timeout=60)
