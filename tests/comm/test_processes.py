"""Ranks as processes: the grid of dtypes and ops, groups, and what is left behind."""

import gc
import os
import pickle
import threading
import time
import tracemalloc
from functools import partial
from itertools import cycle, product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import collalgo
from collalgo import ALGORITHMS, spawn
from collalgo.engine.dtypes import DTYPES, FLOAT8
from collalgo.engine.reduction import OPS, reduction
from collalgo.schedule.collective import COLLECTIVES
from tests.support.leisure import at_leisure
from tests.support.oracle import check, vectors

ERRORS = [
    found
    for found in (getattr(collalgo, name) for name in collalgo.__all__)
    if isinstance(found, type) and issubclass(found, collalgo.CollalgoError)
]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def has(dtype, op):
    try:
        reduction(dtype, op)
    except TypeError:
        return False
    return True


def every_dtype_and_op(comm, parts):
    """Every pair with some algorithms by turns, every algorithm with several pairs."""
    reducing = [row for row in ALGORITHMS if COLLECTIVES[row.collective].reduces]
    turns = cycle([reducing[i::parts] for i in range(parts)])
    for name in DTYPES:
        dtype = dtype_of(name)
        for op in OPS:
            if not has(dtype, op):
                continue
            for count in (5, 3001):
                # What float8 holds exactly: sums of 7 ones, and no 2**7.
                below = 2 if name in FLOAT8 else 3
                inputs = vectors(comm.size, count, dtype, seed=count, below=below)
                for row in next(turns):
                    if op != "avg" or row.collective not in ("scan", "exscan"):
                        check(comm, row, inputs, op, root=comm.size - 1)


def with_large_data(comm, turn):
    """All algorithms, or each other one."""
    inputs = vectors(comm.size, 1_000_003 if comm.size < 3 else 300_001, np.float32)
    for row in ALGORITHMS[turn]:
        if row.obstacle(comm.size) is None:
            check(comm, row, inputs, root=comm.size // 2)


@pytest.mark.parametrize(
    ("size", "parts"),
    at_leisure(
        [(3, 72), (5, 72), (2, 12), (3, 12), (4, 36), (7, 36)], {(3, 72), (5, 72)}
    ),
)
def test_every_dtype_and_op_between_processes(size, parts):
    spawn(partial(every_dtype_and_op, parts=parts), size, timeout=120)


@pytest.mark.parametrize(
    ("size", "turn"), [(2, slice(0, None, 2)), (3, slice(1, None, 2))]
)
def test_large_data_between_processes(size, turn):
    spawn(partial(with_large_data, turn=turn), size, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_algorithm_with_large_data_between_processes(size):
    spawn(partial(with_large_data, turn=slice(None)), size, timeout=120)


def groups_in_groups(comm):
    part = comm.split(comm.rank % 2)
    pair = part.group(range(part.size))
    total = pair.allreduce(np.array([comm.rank]))[0]
    pair.close()
    return int(part.allreduce(np.array([comm.rank]))[0]), int(total)


def test_groups_come_up_between_processes():
    assert spawn(groups_in_groups, 4) == [(2, 2), (4, 4), (2, 2), (4, 4)]


def turns_of_another_thread(comm):
    """How often another thread comes round while this one waits for the last rank."""
    turns, over = [0], threading.Event()

    def count():
        while not over.wait(0.001):
            turns[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    if comm.rank == comm.size - 1:
        time.sleep(0.5)
    comm.barrier()
    over.set()
    counter.join()
    return turns[0]


def test_other_threads_run_while_a_short_call_waits():
    assert spawn(turns_of_another_thread, 2)[0] > 20


def memory_of_calls(comm, calls):
    """Bytes that the calls keep, and that they hold at most."""
    x = np.ones(2, np.float32)
    for _ in range(1100):  # until the recorder has all the calls that it keeps
        comm.allreduce(x, "max")
    tracemalloc.start()
    for _ in range(calls):
        comm.allreduce(x, "max")
    found = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found


@pytest.mark.parametrize(
    ("size", "calls"),
    at_leisure(
        [*product([1, 2, 3], [2000, 10_000]), (1, 1_000_000)],
        {(1, 10_000), (2, 2000), (3, 2000)},
    ),
)
def test_repeated_calls_allocate_nothing(size, calls):
    for kept, peak in spawn(partial(memory_of_calls, calls=calls), size):
        assert kept < 500
        assert peak < 2000


def use_the_world(comm):
    assert collalgo.init() is comm
    return collalgo.allreduce(np.array([1])).item()


def test_the_world_of_a_spawned_rank_is_the_one_it_was_started_in():
    assert spawn(use_the_world, 2) == [2, 2]


def raise_on_rank_1(comm):
    if comm.rank == 1:
        raise KeyError("planted")
    comm.barrier()


def test_the_first_exception_is_raised_with_its_rank_and_place():
    with pytest.raises(KeyError, match="planted") as caught:
        spawn(raise_on_rank_1, 3)
    assert "raised on rank 1" in str(caught.value.__cause__)
    assert 'raise KeyError("planted")' in str(caught.value.__cause__)


class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def raise_what_cannot_travel(comm):
    raise Unpicklable("two", "arguments")


def test_an_exception_that_cannot_be_pickled_arrives_as_text():
    with pytest.raises(collalgo.CollalgoError, match="two arguments"):
        spawn(raise_what_cannot_travel, 1)


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_arrives_with_all_that_it_says(kind):
    error = kind("rank 2 is late", rank=1, sequence=5, missing=(2,))
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is kind
    assert str(arrived) == "rank 2 is late"
    assert vars(arrived) == vars(error)


def exit_early(comm):
    if comm.rank == 1:
        os._exit(3)
    comm.barrier()


def test_a_process_that_ends_without_a_word_is_named():
    with pytest.raises(collalgo.CollalgoError, match="rank 1 ended with exit code 3"):
        spawn(exit_early, 2)


def footprint():
    gc.collect()
    status = Path("/proc/self/status").read_text()
    threads = next(line for line in status.splitlines() if line.startswith("Threads"))
    mappings = Path("/proc/self/maps").read_text().count("collalgo (deleted)")
    return len(os.listdir("/proc/self/fd")), threads, mappings


def open_and_close_many(comm):
    part = comm.dup()
    part.allreduce(np.ones(100_000))
    part.close()
    before = footprint()
    for round_ in range(30):
        part = comm.dup()
        part.allreduce(np.ones(1000))
        if round_ % 2:
            part.close()
        del part
    assert footprint() == before
    assert not any("collalgo" in name for name in os.listdir("/dev/shm"))


def test_closing_or_forgetting_a_communicator_leaves_nothing():
    spawn(open_and_close_many, 2)


def memory_of_the_world(comm):
    comm.allreduce(np.ones(5_000_000, np.float32))
    maps = Path("/proc/self/smaps").read_text().split("\n")
    start = next(i for i, line in enumerate(maps) if "memfd:collalgo" in line)
    pss = next(line for line in maps[start:] if line.startswith("Rss"))
    return int(pss.split()[1]) * 1024


def test_shared_memory_stays_small_whatever_the_message():
    assert max(spawn(memory_of_the_world, 4)) < 4 * 8 * 2**20
