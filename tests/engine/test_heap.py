"""Calls on arrays of the heap, which are sent without a copy."""

from functools import partial
from itertools import product
from threading import Event

import numpy as np
import pytest
from collalgo.bench.heap import in_heap

from collalgo import ALGORITHMS, spawn, threads
from collalgo.comm import slicing
from collalgo.cost import copy_policy, host_price
from collalgo.cost.copy_policy import CopyPolicy
from collalgo.engine.transport import waiting
from collalgo.engine.transport.waiting import ALONE, SHARING
from tests.engine.plan.test_chunk_pipelining import on_another_machine
from tests.support.leisure import at_leisure
from tests.support.oracle import reduced, same, vectors

JUNK = 7

#: Elements for each rank, and the bytes of a slice: short messages are read in the
#: memory of the sender, long ones written to that of the reader, in one slice or some.
LENGTHS = [(480, 4096), (480, 1 << 20), (2400, 1 << 20), (9600, 1 << 16)]


WHOLE = slice(None)


def by_turns(sizes, quick):
    """Sizes with all lengths and algorithms.

    Every time one size is run with each length, and half of the algorithms by turns.
    """
    halves = (slice(turn, None, 2) for turn in (0, 1, 0, 1))
    chosen = [*zip(quick, LENGTHS, halves, strict=True)]
    return at_leisure([*product(sizes, LENGTHS, [WHOLE]), *chosen], chosen)


def call(comm, row, source, out):
    collective = getattr(comm, row.collective)
    if row.collective == "broadcast":
        return collective(source, algorithm=row.name)
    return collective(source, out=out, algorithm=row.name)


def shape_of(collective, size, rank, shape):
    """The shape of the result of a rank, None if it has none."""
    if collective in ("allgather", "gather"):
        return None if collective == "gather" and rank else (size, *shape)
    if collective == "reduce" and rank:
        return None
    return (shape[0] // size,) if collective == "reduce_scatter" else shape


@pytest.mark.parametrize(
    ("size", "lengths", "turn"), by_turns([2, 3, 5], quick=(3, 2, 5, 2))
)
def test_every_algorithm_gives_the_same_as_on_other_arrays(
    monkeypatch, size, lengths, turn
):
    every_algorithm(monkeypatch, size, lengths, turn, in_place=False)


@pytest.mark.parametrize(
    ("size", "lengths", "turn"), by_turns([2, 3, 5, 8], quick=(2, 8, 5, 3))
)
def test_every_allreduce_is_right_in_place(monkeypatch, size, lengths, turn):
    every_algorithm(monkeypatch, size, lengths, turn, in_place=True)


@pytest.mark.parametrize(
    ("size", "lengths", "turn"), by_turns([2, 3, 5], quick=(5, 3, 2, 3))
)
def test_every_algorithm_gives_the_same_past_the_caches(
    monkeypatch, size, lengths, turn
):
    monkeypatch.setattr(CopyPolicy, "held", lambda self, nbytes: float("inf"))
    every_algorithm(monkeypatch, size, lengths, turn, in_place=False)


def rows_for(size, in_place):
    return [
        row
        for row in ALGORITHMS
        if row.collective not in ("barrier", "scatter", "exscan")
        and (row.collective == "allreduce" or not in_place)
        and row.obstacle(size) is None
    ]


def results_of(comm, row, mine, in_place):
    """The arrays after a call on arrays outside the heap, and three on those in it."""
    shape = shape_of(row.collective, comm.size, comm.rank, mine.shape)
    results = []
    for make, times in ((np.copy, 1), (partial(in_heap, comm), 3)):
        source, out = make(mine), None
        if shape is not None and not in_place:
            out = make(np.full(shape, JUNK))
        # The ranks may change them as soon as they return.
        for _ in range(times):
            call(comm, row, source, out)
            results.append((source.copy(), None if out is None else out.copy()))
            if row.collective != "broadcast":
                source[:] = mine
    return results


def every_algorithm(monkeypatch, size, lengths, turn, in_place):
    count, slice_bytes = lengths
    monkeypatch.setattr(copy_policy, "OUTGROWN", 0)
    monkeypatch.setattr(host_price, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(slicing, "SHORT", 0)
    monkeypatch.setattr(slicing, "SHORT_STEP", 0)
    inputs = vectors(size, count * size, np.dtype(np.int64))

    def run(comm):
        for row in rows_for(size, in_place)[turn]:
            (source, out), *others = results_of(comm, row, inputs[comm.rank], in_place)
            for its_source, its_out in others:
                same(its_source, source)
                if out is not None:
                    same(its_out, out)

    threads(run, size, timeout=60)


@pytest.mark.parametrize("times", at_leisure([30, 300], {30}))
def test_what_was_written_in_part_as_it_was_made_is_written_as_a_whole(
    monkeypatch, times
):
    """Sums of several segments, of which each 32nd is only written when it is sent."""
    monkeypatch.setattr(host_price, "SLICE_BYTES", 1 << 30)
    monkeypatch.setattr(CopyPolicy, "held", lambda self, nbytes: 0)
    count = 1 << 19

    def run(comm):
        source, out = np.arange(count), comm.empty(count, np.int64)
        for _ in range(times):
            out[:] = JUNK
            comm.allreduce(source, out=out, algorithm="two_shot")
            same(out, 2 * source)

    threads(run, 2, timeout=60)


def reduced_alone(comm, left, length, seconds):
    """Whether rank 1 leaves a reduce to rank 0 within seconds, before that comes."""
    on_another_machine(comm)
    x = comm.empty(length, np.float32)
    x[:] = comm.rank
    alone = comm.rank == 0 and left.wait(seconds)
    comm.reduce(x, algorithm="linear")
    left.set()
    same(x, np.ones(length, np.float32))
    return alone


def test_a_sender_need_not_wait_for_the_turn_of_its_reader(monkeypatch):
    monkeypatch.setattr(copy_policy, "OUTGROWN", 0)
    monkeypatch.setattr(waiting, "patience", lambda *_: SHARING)
    run = partial(reduced_alone, left=Event(), length=4096, seconds=30)
    assert threads(run, 2, timeout=60) == [True, False]


@pytest.mark.parametrize(("outgrown", "alone"), [(1 << 17, False), (1 << 18, True)])
def test_arrays_that_stay_in_the_caches_are_not_shared(monkeypatch, outgrown, alone):
    """What is read where it is keeps its rank in the call; what is copied does not."""
    monkeypatch.setattr(copy_policy, "OUTGROWN", outgrown)
    monkeypatch.setattr(waiting, "patience", lambda *_: ALONE)
    seconds = 30 if alone else 0.3
    run = partial(reduced_alone, left=Event(), length=1 << 14, seconds=seconds)
    assert threads(run, 2, timeout=60) == [alone, False]


@pytest.mark.parametrize("start", [spawn, threads])
def test_a_rank_may_write_as_soon_as_its_call_returns(start):
    start(run_many, 2, timeout=60)


def run_many(comm):
    count = 1_000_000
    x, out = comm.empty(count, np.float32), np.empty(count, np.float32)
    for turn in range(60):
        x[:] = turn + comm.rank
        comm.allreduce(x, out=out)
        x[:] = -1
        same(out, np.full(count, 2 * turn + 1, np.float32))


def test_the_sum_is_that_of_the_oracle():
    inputs = vectors(4, 50_000, np.dtype(np.float64))

    def run(comm):
        x = in_heap(comm, inputs[comm.rank])
        same(comm.allreduce(x), reduced(inputs, "sum"))

    threads(run, 4)
