"""Chunk pipelining: a sliced plan gives the result of the plan, for all schedules."""

import os
import signal
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo import (
    ALGORITHMS,
    CollalgoError,
    PeerFailed,
    spawn,
    threads,
)
from collalgo.algorithms.direct import two_shot
from collalgo.comm import slicing
from collalgo.comm.current import runner_of
from collalgo.comm.program_cache import ProgramCache
from collalgo.cost import copy_policy, host_price
from collalgo.cost.host_profile import host_profile
from collalgo.engine.plan.layout import Grid, Span
from collalgo.engine.transport import waiting
from collalgo.engine.transport.waiting import ALONE
from collalgo.schedule import trace
from collalgo.schedule.chunk import Chunk
from tests.support.leisure import at_leisure
from tests.support.oracle import check, vectors


@pytest.mark.parametrize(
    ("nbytes", "size"),
    at_leisure(product([64, 1500], [2, 3, 5, 8]), {(64, 2), (64, 5), (1500, 3)}),
)
def test_every_algorithm_in_short_slices(monkeypatch, size, nbytes):
    monkeypatch.setattr(host_price, "SLICE_BYTES", nbytes)
    monkeypatch.setattr(slicing, "SHORT", 0)
    monkeypatch.setattr(slicing, "SHORT_STEP", 0)
    rows = [row for row in ALGORITHMS if row.obstacle(size) is None]

    def run(comm):
        for row in rows:
            for count in (1, 7, 300):
                inputs = vectors(size, count, np.dtype(np.int32))
                check(comm, row, inputs, root=size // 2)

    threads(run, size, timeout=60)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_slices_are_longer_where_each_takes_turns(size):
    machine, nbytes = host_profile(), 64 << 20
    steps = [trace(two_shot, rank, size) for rank in range(size)]
    shared, own = (
        host_price.HostPrice(steps, machine._replace(cores=cores)).slices.at(nbytes)[0]
        for cores in (2, size)
    )
    assert nbytes / size / shared <= host_price.SLICE_BYTES / (2 if size > 2 else 1)
    assert nbytes / size / shared * (size - 1) <= host_price.TURN_BYTES
    assert (shared < own) == (size > 2)


@given(
    blocks=st.integers(1, 6),
    parts=st.integers(1, 4),
    finer=st.integers(1, 5),
    data=st.data(),
)
def test_a_span_is_cut_at_the_borders_of_the_pieces(blocks, parts, finer, data):
    pieces = parts * blocks
    grid = Grid(pieces * finer, blocks)
    first = data.draw(st.integers(0, grid.parts))
    last = data.draw(st.integers(first, grid.parts))
    runs = list(grid.cut(Span(first, last), pieces))
    assert runs[0].start == first
    assert runs[-1].stop == last
    assert all(a.stop == b.start for a, b in pairwise(runs))
    borders = {b for b in range(0, grid.parts, finer) if first < b < last}
    assert {run.start for run in runs[1:]} == borders


def test_a_span_of_a_spare_buffer_is_cut_as_one_of_the_first():
    grid = Grid(12, 3)
    spare = [grid.span(Chunk(0, 3, 3, number)) for number in (0, 2)]
    first, other = (list(grid.cut(span, 3)) for span in spare)
    assert other == [Span(a + 24, b + 24) for a, b in first]
    assert len(first) == 3


def on_another_machine(comm, **figures):
    """Let a communicator take its machine for another, with a core for each rank."""
    known = runner_of(comm).programs
    machine = known.host_profile or host_profile()
    known.host_profile = machine._replace(**{"cores": 64, **figures})


def is_right(comm):
    inputs = vectors(comm.size, 3000, np.dtype(np.int64))
    for row in ALGORITHMS:
        if row.obstacle(comm.size) is None:
            check(comm, row, inputs, root=comm.size - 1)


def past_the_caches(comm):
    """All moves of long arrays, as if the caches held nothing."""
    copy_policy.LONG = copy_policy.LONG_OF_MANY = 1
    on_another_machine(comm, cache=0)
    is_right(comm)


def copied_by_the_kernel(comm):
    """All moves as if the kernel copied everything faster."""
    copy_policy.LONG = copy_policy.LONG_OF_MANY = 1
    on_another_machine(comm, exchange=2.0, fetch=1.0)
    is_right(comm)


def copied_by_the_kernel_on_one_core(comm):
    """The same where the ranks take turns, and nothing stays in the caches."""
    copy_policy.LONG = copy_policy.LONG_OF_MANY = 1
    on_another_machine(comm, cores=1, cache=0, exchange=2.0, fetch=1.0)
    is_right(comm)


WAYS = [past_the_caches, copied_by_the_kernel, copied_by_the_kernel_on_one_core]


@pytest.mark.parametrize(
    ("way", "size", "start"),
    at_leisure(
        product(WAYS, [2, 3], [spawn, threads]),
        {
            *product(WAYS, [2], [threads]),
            (past_the_caches, 2, spawn),
            (copied_by_the_kernel, 3, spawn),
        },
    ),
)
def test_every_algorithm_by_the_ways_of_long_arrays(monkeypatch, way, size, start):
    monkeypatch.setattr(slicing, "SHORT", 0)
    monkeypatch.setattr(slicing, "SHORT_STEP", 0)
    for least in ("LONG", "LONG_OF_MANY"):
        monkeypatch.setattr(copy_policy, least, getattr(copy_policy, least))
    start(way, size, timeout=60)


def fetched(collective, nbytes, size=2, **figures):
    """Whether the kernel is to copy the blocks, of ``nbytes`` bytes in all."""
    machine = host_profile()._replace(cores=4, cache=1 << 20, exchange=2.0, fetch=1.0)
    known = ProgramCache(0, size, machine._replace(**figures))
    of_a_rank = collective in ("allgather", "gather", "scatter")
    count = nbytes // size if of_a_rank else nbytes
    algorithm = "direct" if collective == "allgather" else "linear"
    found = known.get(collective, np.dtype(np.uint8), count, None, 0, algorithm)
    return found.fetched


def test_the_kernel_copies_what_its_figures_say():
    for collective in ("allgather", "alltoall", "broadcast", "scatter", "gather"):
        assert fetched(collective, 1 << 16), collective
        assert not fetched(collective, 1 << 12)
        assert not fetched(collective, 1 << 16, exchange=0.5)
        crowded = fetched(collective, 1 << 16, size=3, cores=2)
        assert crowded == (collective == "alltoall")
        by_three = fetched(collective, 1 << 18, size=3, cache=1 << 22)
        assert by_three == (collective in ("alltoall", "scatter")), collective
        # To ask costs more where many do.
        assert not fetched(collective, 1 << 17, size=3, cache=1 << 22)
    assert not fetched("gather", 1 << 16, size=3)  # the root would copy alone
    assert not fetched("broadcast", 1 << 20)  # beyond the caches
    assert fetched("alltoall", 1 << 20, exchange=0.5)
    # Nor are the messages of many worth it because there are many of them.
    assert not fetched("alltoall", 1 << 17, size=4, exchange=0.5)
    assert fetched("alltoall", 1 << 18, size=4, exchange=0.5)
    crowded = {"size": 3, "cores": 2, "exchange": 0.5}
    assert not fetched("alltoall", 1 << 19, **crowded)  # a core's cache holds slices
    assert fetched("alltoall", 1 << 20, **crowded)


@pytest.mark.parametrize("size", [3, 5])
def test_what_several_read_is_right_where_all_have_cores(monkeypatch, size):
    """On some processors it goes round a ring of 5 MiB, past which all of these go."""
    monkeypatch.setattr(waiting, "patience", lambda *_: ALONE)

    def run(comm):
        on_another_machine(comm)
        for count in (100, 1000, *range(100_000, 400_000, 30_001)):
            mine = np.arange(count) + comm.rank
            out = comm.broadcast(mine.copy(), root=size - 1)
            np.testing.assert_array_equal(out, np.arange(count) + size - 1)
            rows = [np.arange(count) + rank for rank in range(size)]
            np.testing.assert_array_equal(comm.allgather(mine), rows)
            np.testing.assert_array_equal(comm.allreduce(mine), sum(rows))

    threads(run, size, timeout=60)


def fetch_from_the_dead(comm):
    on_another_machine(comm, cache=0)
    x = np.ones(comm.size * 100_000)
    comm.alltoall(x)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(PeerFailed, match="rank 1"):
        for _ in range(100):
            comm.alltoall(x)
    return True


def test_who_fetches_from_a_dead_rank_is_told():
    with pytest.raises(CollalgoError, match="rank 1 was killed by SIGKILL"):
        spawn(fetch_from_the_dead, 3, timeout=60)


def test_arrays_are_shared_that_do_not_fit_the_caches_of_a_core():
    machine = host_profile()._replace(cores=2)

    def least(collective, size):
        """The least power of two of bytes that is."""
        ways = copy_policy.CopyPolicy(collective, size, machine)
        return next((1 << n for n in range(30) if ways.is_shared(1 << n)), None)

    assert least("allgather", 2) == 1 << 20
    assert least("allgather", 8) == 1 << 18
    assert least("broadcast", 2) is None


def test_arrays_beyond_the_caches_are_in_none_when_they_are_used_again():
    machine = host_profile()._replace(cache=1 << 20)
    ways = copy_policy.CopyPolicy("allgather", 2, machine)
    assert ways.stays_cached((1 << 20) - 1)
    assert not ways.stays_cached(1 << 20)
