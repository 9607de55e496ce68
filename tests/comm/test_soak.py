"""Calls whose arguments always change take no more and more memory or descriptors."""

import gc
import os
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import collalgo
from collalgo import spawn
from collalgo.algorithms import ring
from tests.support.leisure import at_leisure

#: Calls before the first measurement, which fill the caches.
FIRST = 3

#: What may be taken more after the first calls: descriptors, mappings, and MiB.
MORE = 8, 40, 24


def footprint():
    """The open descriptors, mappings, and MiB in memory of this process."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("\n")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return np.array([len(os.listdir("/proc/self/fd")), maps, pages >> 8])


def collectives(comm, dice):
    """Calls of sizes, roots, ops and algorithms that no call had before."""
    count, root = dice.randrange(1, 5000), dice.randrange(comm.size)
    x = np.full(count, comm.rank, np.float32)
    comm.broadcast(x, root)
    comm.reduce(x, dice.choice(["sum", "max", "prod"]), root)
    comm.gather(x, root)
    comm.allgatherv(x[: count - comm.rank % count])
    comm.scatterv(np.ones(count * comm.size if comm.rank == root else count), root=root)
    segments = dice.randrange(1, 30)
    comm.allreduce(x, algorithm=f"ring(segments={segments})")
    comm.allreduce(x, algorithm=ring.allreduce)
    comm.allreduce_async(np.ones(count)).wait()


def messages(comm, dice):
    """Messages of tags that no message had before, also of those received by none."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    tags = [dice.randrange(1 << 60) for _ in range(10)]
    counts = [dice.choice([1, 100, 5000]) for _ in tags]
    sent = [
        comm.isend(np.ones(count), right, tag)
        for tag, count in zip(tags, counts, strict=True)
    ]
    for number in dice.sample(range(10), 10):
        source = left if number % 2 else None
        comm.recv(np.empty(counts[number]), source, tags[number])
    for message in sent:
        message.wait()
    comm.barrier()
    if comm.rank == 0:
        with pytest.raises(collalgo.CollectiveTimeout):
            comm.recv(np.empty(1), right, tags[0], timeout=0.001)


def groups(comm, dice):
    """Groups that come and go, with calls, messages and buckets of their own."""
    part = comm.split(dice.randrange(2) and comm.rank % 2, dice.randrange(5))
    other = part.dup()
    for each in (part, other):
        each.allreduce(np.ones(dice.randrange(1, 100)))
        each.empty(1000)[:] = 1
        if each.size > 1 and each.rank < 2:
            message = each.isend(np.ones(3), 1 - each.rank)
            each.recv(np.empty(3), 1 - each.rank)
            message.wait()
        bucket = each.bucket()
        bucket.allreduce(np.ones(3))
        bucket.flush()
    other.close()
    if dice.random() < 0.5:
        part.close()  # others are collected


def prepared(comm, dice):
    """Persistent calls, which end with their last use."""
    for _ in range(5):
        again = comm.persistent_allreduce(np.ones(dice.randrange(1, 3000)))
        again()
        again.start().wait()


KINDS = {"collectives": 30, "messages": 30, "groups": 8, "prepared": 30}


def soak(comm, kind, rounds):
    """How much more memory, mappings and descriptors are taken by more rounds."""
    dice, call = random.Random(kind), globals()[kind]
    for _ in range(rounds * FIRST):
        call(comm, dice)
    comm.barrier()
    before = footprint()
    for _ in range(rounds * FIRST):
        call(comm, dice)
    comm.barrier()
    return (footprint() - before).tolist()


@pytest.mark.parametrize("size", at_leisure((2, 3, 5), (2,)))
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_changing_arguments_take_no_more_and_more(kind, size):
    for more in spawn(partial(soak, kind=kind, rounds=KINDS[kind]), size, timeout=60):
        assert all(np.array(more) <= MORE), (kind, more)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_many_calls_of_changing_arguments_take_no_more_and_more(kind, size):
    rounds = 60 * KINDS[kind]
    for more in spawn(partial(soak, kind=kind, rounds=rounds), size, timeout=600):
        assert all(np.array(more) <= MORE), (kind, more)


def sizes(comm, calls):
    """How much more is taken by calls of random sizes, after a tenth of them."""
    rng = np.random.default_rng(1)
    memory = np.ones(1 << 14)
    before = None
    for number in range(calls):
        count = int(2 ** rng.uniform(0, 14 if number % 16 == 0 else 8))
        x, kind = memory[:count], number % 4
        if kind == 0:
            comm.allreduce(x, "max")
        elif kind == 1:
            comm.broadcast(x, number % comm.size)
        elif kind == 2:
            comm.allgather(x[:256])
        else:
            counts = [count % 97, *[number % 53] * (comm.size - 1)]
            comm.allgatherv(memory[: counts[comm.rank]], counts)
        if number == calls // 10:
            before = footprint()
    return (footprint() - before).tolist()


@pytest.mark.slow
def test_a_million_calls_of_random_sizes_take_no_more_and_more():
    for more in spawn(partial(sizes, calls=1_000_000), 2, timeout=600):
        assert all(np.array(more) <= MORE), more
