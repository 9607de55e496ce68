"""Calls in the background: every collective, in order, made while nobody waits."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

import collalgo
from collalgo import (
    ALGORITHMS,
    spawn,
    threads,
)
from collalgo.schedule.collective import COLLECTIVES
from tests.support.leisure import at_leisure
from tests.support.oracle import check, vectors
from tests.support.waiting import is_soon


class InBackground:
    """A communicator whose calls are all made in the background, and waited for."""

    def __init__(self, comm):
        self.comm = comm
        self.rank, self.size = comm.rank, comm.size

    def __getattr__(self, name):
        call = getattr(self.comm, f"{name}_async")
        return lambda *args, **named: call(*args, **named).wait()


def every_collective(comm):
    background = InBackground(comm)
    for number, row in enumerate(ALGORITHMS):
        if number % 3 == comm.size % 3 and row.obstacle(comm.size) is None:
            root = (comm.size - 1) * COLLECTIVES[row.collective].rooted
            for count in (0, 5, 1001, 30_011)[number % 2 :: 2]:
                inputs = vectors(comm.size, count, np.float32, seed=count)
                check(background, row, inputs, root=root)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_every_collective_is_right_in_the_background(size):
    threads(every_collective, size, timeout=120)


def test_every_collective_is_right_in_the_background_of_processes():
    spawn(every_collective, 3, timeout=120)


def in_any_order(comm):
    """What is outstanding is done in its order, whoever waits for what."""
    x = np.ones(3)
    first = comm.allreduce_async(x)
    assert (comm.allreduce(x) == comm.size**2).all()  # in turn, so the first is done
    assert first.done()
    works = [comm.allreduce_async(np.full(100, i)) for i in range(50)]
    chosen = np.random.default_rng(comm.rank).permutation(50)
    for i in chosen:
        assert (works[i].wait() == i * comm.size).all()
    later = collalgo.broadcast_async(np.array([comm.rank]), comm, root=comm.size - 1)
    uneven = comm.allgatherv_async(np.full(comm.rank, comm.rank))
    assert later.result()[0] == comm.size - 1
    assert len(uneven.wait()) == comm.size * (comm.size - 1) // 2
    comm.barrier_async().wait()


@pytest.mark.parametrize(
    ("start", "size"),
    at_leisure(
        product([threads, spawn], [1, 2, 4]),
        {*product([threads], [1, 2, 4]), (spawn, 2)},
    ),
)
def test_calls_are_made_in_their_order(start, size):
    start(in_any_order, size, timeout=60)


def test_arrays_that_must_be_packed():
    def on_each_rank(comm):
        table = np.arange(24.0).reshape(4, 6)
        work = comm.allreduce_async(table[:, ::2].T, out=table[:, 1::2].T)
        work.wait()
        assert (table[:, 1::2] == comm.size * table[:, ::2]).all()
        frozen = np.ones(3)[::-1]
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="allreduce: buf is read-only"):
            comm.allreduce_async(frozen)
        assert comm.allreduce(np.ones(1))[0] == comm.size

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.deadline
@pytest.mark.parametrize("pause", [0, 0.002, 0.3])
def test_short_calls_that_nobody_waits_for_are_made(pause):
    def on_each_rank(comm):
        told = []
        for turn in range(5):
            works = [comm.allreduce_async(np.ones(3)) for _ in range(turn)]
            last = comm.allreduce_async(np.full(3, turn))
            last.add_done_callback(lambda work: told.append(work.result()[0]))
            comm.allreduce_async(np.ones(3)).wait()  # what came before is made, too
            assert all(work.done() for work in [*works, last])
            time.sleep(pause)
            lonely = comm.allreduce_async(np.full(3, turn))
            assert is_soon(lonely.done)
            assert (lonely.result() == turn * comm.size).all()
        assert told == [turn * comm.size for turn in range(5)]

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.deadline
def test_who_waits_with_a_timeout_can_wait_again():
    def on_each_rank(comm):
        if comm.rank == 0:
            work = comm.allreduce_async(np.ones(3))
            with pytest.raises(TimeoutError, match=r"is not done after 0\.1 s"):
                work.wait(0.1)
            assert not work.done()
            assert "under way" in repr(work)
        comm.group(range(comm.size)).barrier()
        if comm.rank:
            work = comm.allreduce_async(np.ones(3))
        assert (work.wait(30) == comm.size).all()
        assert work.exception() is None

    threads(on_each_rank, 3, timeout=60)


def test_who_wants_to_know_is_told():
    def on_each_rank(comm):
        told = []
        works = [comm.allreduce_async(np.ones(i)) for i in range(20)]
        for work in works:
            work.add_done_callback(lambda work: told.append(work.wait().size))
        works[-1].wait()
        works[0].add_done_callback(lambda work: told.append("late"))
        while len(told) < 21:
            time.sleep(0.001)
        assert set(told) == {*range(20), "late"}

    threads(on_each_rank, 2, timeout=60)


def random_allreduces(part, seed):
    """Calls in the background, of which each may be followed by one that waits."""
    dice = np.random.default_rng(seed)
    for _ in range(100):
        count = int(dice.integers(0, 3000))
        work = part.allreduce_async(np.full(count, 1.0))
        if dice.random() < 0.5:
            assert (part.allreduce(np.ones(3)) == part.size).all()
        assert (work.wait() == part.size).all()


def test_several_threads_may_give_calls_to_communicators_of_their_own():
    def on_each_rank(comm):
        parts = [comm.dup() for _ in range(4)]
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(random_allreduces, parts, range(len(parts))))

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.deadline
def test_a_wait_of_zero_polls():
    def on_each_rank(comm):
        works = []
        if comm.rank == 0:
            works.append(comm.allreduce_async(np.ones(3)))
            for poll in (works[0].wait, works[0].result, works[0].exception):
                with pytest.raises(TimeoutError, match="is not done after 0 s"):
                    poll(0)
        comm.group(range(comm.size)).barrier()
        if comm.rank:
            works.append(comm.allreduce_async(np.ones(3)))
        assert is_soon(works[0].done)
        assert (works[0].wait(0) == comm.size).all()
        assert works[0].exception(0) is None
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError, match="need seconds above 0"):
                works[0].wait(wrong)

    threads(on_each_rank, 3, timeout=60)
