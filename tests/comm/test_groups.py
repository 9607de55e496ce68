"""Groups in numbers: hundreds at once, a thousand in turn, from several threads."""

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import collalgo
from collalgo import spawn, threads
from collalgo.comm.tracing.analysis import analyze
from tests.support.leisure import at_leisure
from tests.support.shared_memory import left_in_memory, names_in_memory


def held():
    """What this process holds: descriptors, threads, and mapped worlds."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("memfd:collalgo")
    return len(os.listdir("/proc/self/fd")), threading.active_count(), maps


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def thousand(comm):
    comm.dup().close()
    before, memory, shared = held(), resident(), names_in_memory()
    for number in range(1000):
        part = comm.dup()
        if number % 10 == 0:
            assert part.allreduce_async(np.ones(3)).wait()[0] == comm.size
        assert part.allreduce(np.ones(3))[0] == comm.size
        part.close()
    comm.barrier()
    until = time.monotonic() + 10
    while held() != before and time.monotonic() < until:
        time.sleep(0.05)
    assert held() == before
    assert resident() - memory < 32 << 20
    assert not left_in_memory(shared)


@pytest.mark.deadline
def test_nothing_is_left_of_a_thousand_groups():
    spawn(thousand, 2, timeout=60)


def shared_bytes():
    """The memory that worlds and groups use, as mapped by this process."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = "memfd:collalgo" in line
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


def thousand_at_once(comm):
    comm.barrier()
    before, used = held(), shared_bytes()
    parts = [comm.dup() for _ in range(1000)]
    for part in parts[::-1]:
        assert part.allreduce(np.ones(5))[0] == comm.size
    assert held() == before
    assert shared_bytes() - used < 1000 * (64 << 10)
    with pytest.raises(collalgo.CommunicatorClosed, match="is closed"):
        parts[0].close()
        parts[0].allreduce(np.ones(5))
    del part
    while parts:  # in another order on each rank, and some by the garbage collector
        part = parts.pop(0 if comm.rank else -1)
        if len(parts) % 2:
            part.close()
    del part
    gc.collect()
    comm.barrier()
    assert shared_bytes() - used < 1 << 20


def test_a_thousand_groups_at_once():
    spawn(thousand_at_once, 2, timeout=60)


#: How to make a group of the newest that a rank has: all of it, parts, or some ranks.
STEPS = st.one_of(
    st.just(("dup", 0)), st.tuples(st.sampled_from(["split", "group"]), st.integers(1))
)


def part_of(parent, kind, dice):
    """A group, None if this rank is not in it, and its ranks in its parent."""
    colors = dice.integers(0, 3, parent.size)
    keys = dice.permutation(parent.size)
    if kind == "dup":
        return parent.dup(), range(parent.size)
    if kind == "split":
        color = colors[parent.rank]
        part = parent.split(color or None, keys[parent.rank])
        return part, [i for i in np.argsort(keys) if color and colors[i] == color]
    chosen = [i for i in keys if colors[i] == 1]
    return parent.group(chosen) if parent.rank in chosen else None, chosen


def nested(comm, steps):
    """Make groups of groups, each checked against the ranks that it should have."""
    mine = [(comm, tuple(range(comm.size)))]
    for kind, seed in steps:
        parent, ranks = mine[-1]
        part, chosen = part_of(parent, kind, np.random.default_rng(seed))
        if part is None:
            break
        mine.append((part, tuple(ranks[i] for i in chosen)))
    ordered = mine[::-1] if comm.rank % 2 else mine
    works = [
        (ranks, part.allgather_async(np.array([comm.rank]))) for part, ranks in ordered
    ]
    for ranks, work in works:
        assert tuple(work.wait().ravel()) == ranks
    comm.barrier()
    for part, _ in ordered:
        if part is not comm:
            part.close()


@settings(max_examples=15)
@given(st.sampled_from([1, 2, 3, 5, 8]), st.lists(STEPS, max_size=5))
def test_groups_of_groups_have_the_ranks_that_they_should_have(size, steps):
    collalgo.threads(partial(nested, steps=steps), size, timeout=60)


CALLS = 400


def one_call(part, dice, others):
    """A random call of a group, in the foreground or not: how to check its result."""
    kind, count = int(dice.integers(0, 5)), int(dice.integers(0, 2000))
    root, background = int(dice.integers(0, part.size)), dice.random() < 0.5
    ranks = np.array(others)
    shape = (part.size, count) if kind == 4 else count
    mine = np.full(shape, ranks[part.rank], np.int64)
    make, expected = (
        (part.allreduce, ranks.sum()),
        (part.broadcast, ranks[root]),
        (part.allgather, ranks[:, None]),
        (part.reduce, ranks.max()),
        (part.alltoall, ranks[:, None]),
    )[kind]
    named = {1: {"root": root}, 3: {"root": root, "op": "max"}}.get(kind, {})
    name = make.__name__
    begun = getattr(part, f"{name}_async" if background else name)(mine, **named)

    def check():
        found = begun.wait() if background else begun
        if not (kind == 3 and part.rank != root):
            assert (found == expected).all(), name

    return check


def random_part(comm, plan):
    """A group of random ranks, with their list; None if this rank is not in it."""
    size = int(plan.integers(1, comm.size + 1))
    members = plan.permutation(comm.size)[:size].tolist()
    return (comm.group(members), members) if comm.rank in members else None


def perform(parts, seed):
    """Random calls of some groups, with at most 20 of unchecked results."""
    chosen, checks = np.random.default_rng(seed), []
    for _ in range(CALLS):
        part = parts[chosen.integers(0, len(parts))]
        dice = np.random.default_rng(chosen.integers(1 << 30))
        if part is not None:
            checks.append(one_call(part[0], dice, part[1]))
        if len(checks) > 20:
            checks.pop(0)()
    for check in checks:
        check()


def random_calls(comm, seed=0):
    """Threads that each make random calls on groups that overlap, all of their own."""
    plan = np.random.default_rng(seed)
    duties = []
    for _ in range(3):
        parts = [random_part(comm, plan) for _ in range(4)]
        duties.append((parts, int(plan.integers(1 << 30))))
    with ThreadPoolExecutor(len(duties)) as pool:
        for each in [pool.submit(perform, *duty) for duty in duties]:
            each.result()


@pytest.mark.parametrize("size", at_leisure([2, 3, 4], {3}))
def test_random_calls_on_overlapping_groups_from_several_threads(size):
    spawn(partial(random_calls, seed=size), size, timeout=100)


def planted(comm, folder):
    """Many calls on many groups; at one place one rank does something else."""
    parts = [comm.dup(), comm.split(comm.rank % 2), comm.group(range(comm.size))]
    with pytest.raises(collalgo.MismatchError):
        for number in range(200):
            wrong = number == 150 and comm.rank == 2
            parts[number % 3].allreduce(np.ones(100 + wrong))
            comm.barrier()
    time.sleep(0.5)


def test_a_planted_mismatch_is_named_by_the_recorder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_DUMP", str(tmp_path))
    spawn(partial(planted, folder=tmp_path), 4, timeout=20)
    first = analyze(tmp_path)[0]
    assert first.culprits == (2,)
    assert first.number == 51
    assert "101 float64" in "\n".join(first.lines)


def test_errors_in_a_group_of_a_group_name_the_ranks_of_the_world():
    def on_each_rank(comm):
        odd = comm.split(comm.rank % 2)
        part = odd.split(odd.rank > 0)
        told = None
        try:
            part.allreduce(np.ones(1 + part.rank))
        except collalgo.MismatchError as error:
            told = str(error)
        same = comm.dup()
        try:
            same.barrier() if comm.rank else same.allreduce(np.ones(1))
        except collalgo.MismatchError as error:
            assert "of the world" not in str(error)
        return told

    told = threads(on_each_rank, 6, timeout=60)
    for rank in (2, 4):
        assert told[rank].endswith("(ranks of the group [2, 4] of the world)")
    assert told[5].endswith("(ranks of the group [3, 5] of the world)")
    assert told[0] is None


def test_the_last_call_of_a_rank_is_named_as_the_user_made_it():
    told = []

    def on_each_rank(comm):
        comm.split(comm.rank % 2)
        if not comm.rank:
            raise ArithmeticError
        try:
            comm.barrier(timeout=30)
        except collalgo.PeerFailed as error:
            told.append(str(error))

    with pytest.raises(ArithmeticError):
        threads(on_each_rank, 2, timeout=60)
    assert told[0].endswith("its last call was split #1")
