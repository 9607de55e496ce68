"""What one member knows of a change, all members find at the same commit."""

import gc
import os
import weakref
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from collalgo import spawn, threads
from collalgo.elastic import sum_memory, sum_shards
from collalgo.elastic.boundary import Boundary, MembersChange
from collalgo.elastic.shard_plan import sums_of

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

SIZES = [1, 2, 3, 5, 7, 8, 12, 16, 17, 33]

#: Steps after which no member knows of a change.
CALM = 2


class Knowing:
    """Newcomers of which a member knows or not."""

    knows = False

    def has_changed(self):
        return self.knows


def ends_step(boundary):
    try:
        boundary.check()
    except MembersChange:
        return True
    return False


def steps_that_end(comm, shard, *, is_summing):
    """The steps at which the epoch ends, of which each rank knows one."""
    newcomers, found = Knowing(), []
    boundary = Boundary(comm, newcomers)
    sums_of(comm, boundary)
    exchanges = noted_exchanges(comm._runner)
    for step in range(comm.size + CALM):
        newcomers.knows = step == comm.rank
        if is_summing:
            total = sum_shards(comm, 40, lambda _: shard)
            assert np.all(total == 40) or total.dtype == bool
            assert total.shape == shard.shape
        found.append(ends_step(boundary))
    is_carried = is_summing and fits(shard)
    assert exchanges == ([] if is_carried else ["commit"] * len(found))
    return found


def noted_exchanges(runner):
    """The names of the calls that exchange what members know, as they are made."""
    right, found = runner.exchange_as_call, []

    def exchange(mine, call):
        found.append(call)
        return right(mine, call)

    runner.exchange_as_call = exchange
    return found


def fits(shard):
    return shard.dtype.isnative


@pytest.mark.parametrize(("dtype", "size"), [
    *(("f4", size) for size in SIZES),
    *product(["i1", "u8", "c16", "f2", BFLOAT16, ">f8", "?"], [1, 2, 5]),
])  # fmt: skip
def test_all_members_find_a_change_at_the_commit_after_the_sum(dtype, size):
    shard = np.ones((3, 3), dtype)
    found = threads(lambda comm: steps_that_end(comm, shard, is_summing=True), size)
    assert found == [[True] * size + [False] * CALM] * size


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_all_members_find_a_change_at_a_commit_without_a_sum(size):
    found = threads(lambda c: steps_that_end(c, np.ones(1), is_summing=False), size)
    assert found == [[True] * size + [False] * CALM] * size


def test_bytes_count_no_more_members_than_they_can():
    def on_each_rank(comm):
        boundary = Boundary(comm, Knowing())
        boundary._size = 256
        return [boundary.fits(np.dtype(each)) for each in ("i1", "u1", "i2", "?")]

    assert threads(on_each_rank, 1) == [[False, False, True, True]]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_memory_of_a_result_is_used_again_once_it_is_dropped(size):
    def on_each_rank(comm):
        seen, kept = set(), []
        for step in range(12):
            total = sum_shards(comm, 8, lambda _, n=step: np.full(5000, n))
            seen.add(total.ctypes.data)
            if step < 4:  # views and buffers keep the memory as the array does
                kept.append((total[7:], memoryview(total[1:]))[step % 2])
        del total
        gc.collect()
        values = [np.unique(np.asarray(each)).tolist() for each in kept]
        return len(seen), values

    found = threads(on_each_rank, size)
    for places, values in found:
        assert 4 < places <= 4 + 3
        assert values == [[8 * n] for n in range(4)]


@pytest.mark.parametrize("size", [1, 2])
def test_sums_of_many_forms_keep_the_memory_of_the_last_ones(size, monkeypatch):
    monkeypatch.setattr(sum_memory, "KEPT_BYTES", 1 << 16)

    def on_each_rank(comm):
        for length in (*range(1000, 1040), 1 << 13, 1 << 20):
            for _ in range(3):
                assert (sum_shards(comm, 8, lambda _, n=length: np.ones(n)) == 8).all()
        kept = sums_of(comm)._results._kept
        return sum(each.nbytes for arrays in kept.values() for each in arrays)

    assert all(0 < kept <= 2 << 16 for kept in threads(on_each_rank, size))


def test_a_closed_communicator_keeps_no_memory_of_sums():
    def on_each_rank(comm):
        for _ in range(3):
            sum_shards(comm, 8, lambda _: np.ones(5000))
        memory = weakref.ref(sums_of(comm)._memory[0]._kept.base)
        assert memory() is not None
        comm.barrier()
        comm.close()
        return memory() is None

    assert threads(on_each_rank, 3) == [True] * 3


def summed_before_a_fork(comm):
    """The exit code of a child that reads a sum, while the parent makes others."""
    total = sum_shards(comm, 8, lambda _: np.ones(5000))
    began, wait = os.pipe()[::-1]
    child = os.fork()
    if not child:
        os.read(wait, 1)
        os._exit(0 if (total == 8).all() else 1)
    del total
    for _ in range(3):
        sum_shards(comm, 8, lambda _: np.zeros(5000))
    os.write(began, b"x")
    return os.waitpid(child, 0)[1]


def test_a_forked_child_has_the_sums_of_its_parent():
    assert spawn(summed_before_a_fork, 2) == [0, 0]


def test_the_sums_of_a_communicator_do_not_keep_it():
    def on_each_rank(comm):
        group = comm.dup()
        sum_shards(group, 8, lambda _: np.ones(50))
        kept = weakref.ref(sums_of(group))
        group.close()
        del group
        gc.collect()
        return kept()

    assert threads(on_each_rank, 1) == [None]
