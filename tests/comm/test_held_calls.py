"""Calls in the background may be held, and made by whoever catches up."""

import os
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from collalgo import (
    CollalgoError,
    PeerFailed,
    spawn,
    threads,
)
from collalgo._kernels.engine.transport.segment import Segment
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.comm.current import runner_of
from collalgo.engine.transport.shm import create
from collalgo.engine.transport.waiting import waits
from tests.support.waiting import is_soon


@pytest.fixture
def crowded(monkeypatch):
    """Ranks that need all the cores there are."""

    def end(segment, rank, size, waits, **more):
        lacking = waits._replace(lacks_cores=True)
        return SharedMemory(segment, rank, size, lacking, **more)

    monkeypatch.setattr("collalgo.engine.transport.thread.SharedMemory", end)


@pytest.mark.deadline
def test_who_holds_calls_makes_them(crowded):
    def on_each_rank(comm):
        made_by = []
        for _ in range(10):  # the thread does not wait for ever
            assert runner_of(comm).progress.hold()
            works = [comm.allreduce_async(np.ones(size)) for size in (3, 1 << 16)]
            for work in works:
                work.add_done_callback(lambda _: made_by.append(threading.get_ident()))
            time.sleep(0.005)
            runner_of(comm).progress.catch_up()
            assert all((work.wait() == comm.size).all() for work in works)
        assert made_by.count(threading.get_ident()) > 2

    threads(on_each_rank, 2, timeout=60)


def switches():
    """How often each thread of the library has slept."""
    found = {}
    for thread in threading.enumerate():
        status = Path(f"/proc/self/task/{thread.native_id}/status")
        if thread.name == "collalgo":
            with suppress(OSError):  # it may end, if it is of an earlier test
                text = status.read_text()
                found[thread] = int(re.search(r"\nvoluntary\D*(\d+)", text)[1])
    return found


@pytest.mark.deadline
def test_calls_that_are_held_do_not_wake_the_thread(crowded):
    def on_each_rank(comm):
        for calls in range(60):
            if calls == 10:
                comm.barrier()
                before = switches()
            runner_of(comm).progress.hold()
            comm.allreduce_async(np.ones(3)).add_done_callback(lambda _: None)
            runner_of(comm).progress.catch_up()
            time.sleep(0.004)
        comm.barrier()
        after = switches()
        comm.barrier()
        assert len(before.keys() & after.keys()) >= 2
        assert sum(after[t] - before[t] for t in before.keys() & after.keys()) < 50

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.deadline
def test_calls_that_nobody_catches_up_on_are_made(crowded):
    def on_each_rank(comm):
        for size in (3, 1 << 16):
            for happens in ("told", "done", "wait", "called"):
                runner_of(comm).progress.hold()
                work, told = comm.allreduce_async(np.ones(size)), threading.Event()
                if happens == "told":
                    work.add_done_callback(lambda _, told=told: told.set())
                    assert told.wait(20)
                elif happens == "done":
                    assert is_soon(work.done)
                elif happens == "wait":
                    work.wait(20)
                else:
                    comm.barrier()
                    assert work.done()
                assert (work.wait() == comm.size).all()

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.deadline
def test_nothing_is_held_where_cores_are_spare():
    descriptor = create(2)
    segment = Segment(descriptor, 2)
    os.close(descriptor)
    for cores, world_size in ((1, 2), (2, 2), (3, 2), (1, 4)):
        how = waits(2, cores, across=world_size > 2)
        end = SharedMemory(segment, 0, 2, how, world_size=world_size)
        assert end.lacks_cores == (cores < 3 and world_size == 2)
    assert threads(lambda comm: runner_of(comm).progress.hold(), 2) == [False, False]


def die_while_others_catch_up(comm):
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    runner_of(comm).progress.hold()
    works = [comm.allreduce_async(np.ones(3)) for _ in range(2)]
    runner_of(comm).progress.catch_up()
    assert all(isinstance(work.exception(), PeerFailed) for work in works)


def test_a_death_is_told_to_who_catches_up():
    with pytest.raises(CollalgoError, match=r"^rank 1 was killed by SIGKILL"):
        spawn(die_while_others_catch_up, 3, timeout=60)
