"""Calls in the background that first exchange counts, shapes or a description."""

from threading import Event

import numpy as np
import pytest

import collalgo
from collalgo import MismatchError, threads
from collalgo.comm.current import runner_of

SIZES = (1, 2, 3, 5, 8)


def rows_of(comm):
    return np.full((comm.rank + 1, 2), comm.rank, np.int32)


def into(comm):
    return np.empty((comm.rank % 2 + 1, 2), np.int32)


def total_rows(comm):
    return np.arange(2 * sum(rank % 2 + 1 for rank in range(comm.size))).reshape(-1, 2)


def sum_of(a, b):
    return a + b


def known_to_root(comm, count=3):
    return {f"x{n}": np.arange(n) for n in range(count)} if comm.rank == 0 else None


def sent(comm):
    return np.repeat(np.arange(comm.size), np.arange(comm.size) + 1)


#: The calls by their names: each makes one, by the form of the call.
CALLS = {
    "allgatherv": lambda comm, form: form(comm, "allgatherv")(rows_of(comm)),
    "gatherv": lambda comm, form: form(comm, "gatherv")(
        rows_of(comm), root=comm.size - 1
    ),
    "scatterv": lambda comm, form: form(comm, "scatterv")(
        total_rows(comm) if comm.rank == 0 else into(comm).astype(np.int64)
    ),
    "reduce_scatterv": lambda comm, form: form(comm, "reduce_scatterv")(
        total_rows(comm).astype(np.int32), out=into(comm)
    ),
    "op of Python": lambda comm, form: form(comm, "reduce_scatterv")(
        total_rows(comm).astype(np.int32), op=sum_of, out=into(comm)
    ),
    "alltoallv": lambda comm, form: form(comm, "alltoallv")(
        sent(comm), np.arange(comm.size) + 1
    ),
    "both counts": lambda comm, form: form(comm, "alltoallv")(
        sent(comm), np.arange(comm.size) + 1, [comm.rank + 1] * comm.size
    ),
    "shapes": lambda comm, form: form(comm, "alltoall")(
        [np.full((rank, comm.rank), rank) for rank in range(comm.size)]
    ),
    "list": lambda comm, form: form(comm, "alltoall")(
        [np.full(rank, comm.rank) for rank in range(comm.size)],
        out=[np.empty(comm.rank, int) for _ in range(comm.size)],
    ),
    "like": lambda comm, form: form(comm, "broadcast")(known_to_root(comm), like=None),
    "long description": lambda comm, form: form(comm, "broadcast")(
        known_to_root(comm, 50), like=None
    ),
}


def near(comm):
    return comm.neighbors(collalgo.cartesian((comm.size,), periodic=True))


def blocking(comm, name):
    return getattr(comm, name)


def in_background(comm, name):
    return getattr(comm, f"{name}_async")


def as_lists(found):
    if isinstance(found, dict):
        return {key: as_lists(value) for key, value in found.items()}
    return [as_lists(x) for x in found] if isinstance(found, list) else np.array(found)


def assert_equal(found, wanted):
    np.testing.assert_equal(as_lists(found), as_lists(wanted))


@pytest.mark.parametrize("size", SIZES)
def test_no_call_waits_for_others_when_it_is_submitted(size):
    submitted = Event()

    def each(comm):
        wanted = [call(comm, blocking) for call in CALLS.values()]
        if comm.rank == comm.size - 1 and comm.rank:
            assert submitted.wait(30)
        works = [call(comm, in_background) for call in CALLS.values()]
        after = comm.allreduce_async(np.ones(3))
        submitted.set()
        assert after.wait().tolist() == [comm.size] * 3
        for work, one in zip(works, wanted, strict=True):
            assert_equal(work.wait(), one)

    threads(each, size, timeout=60)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_neighbors_wait_for_no_counts_when_a_call_is_submitted(size):
    submitted = Event()

    def each(comm):
        ring = near(comm)
        counts = [comm.rank + 1, *[0] * (len(ring.targets) - 1)]
        wanted = (
            ring.allgatherv(rows_of(comm)),
            ring.alltoallv(rows_of(comm), counts),
        )
        if comm.rank == comm.size - 1:
            assert submitted.wait(30)
        works = (
            ring.allgatherv_async(rows_of(comm)),
            ring.alltoallv_async(rows_of(comm), counts),
        )
        submitted.set()
        for work, one in zip(works, wanted, strict=True):
            assert_equal(work.wait(), one)

    threads(each, size, timeout=60)


@pytest.mark.parametrize("name", CALLS)
def test_ranks_in_the_foreground_and_in_the_background_make_one_call(name):
    def each(comm):
        call, runner = CALLS[name], runner_of(comm)
        wanted, before = call(comm, blocking), runner.call_number
        form = in_background if comm.rank % 2 else blocking
        found = call(comm, form)
        assert_equal(found.wait() if comm.rank % 2 else found, wanted)
        assert runner.call_number == before + 1 == runner.recorder.calls
        return runner.recorder.calls

    assert len(set(threads(each, 3, timeout=60))) == 1


def test_counts_that_differ_are_an_error_of_the_wait_on_all_ranks():
    def each(comm):
        counts = [1] * comm.size
        expected = [1 + (comm.rank == 1)] * comm.size
        work = comm.alltoallv_async(np.zeros(comm.size), counts, expected)
        with pytest.raises(MismatchError, match="which expects 2"):
            work.wait()
        return comm.allreduce(np.ones(1))[0]

    assert threads(each, 3, timeout=60) == [3] * 3


def alike_but_one(comm):
    """Counts to be sent, and those that are expected; rank 1 expects another one."""
    return [1] * comm.size, [1 + (comm.rank == 1)] * comm.size


#: Calls whose exchange finds that the arguments of the ranks do not fit.
FAILING = {
    "alltoallv": lambda comm, form: form(comm, "alltoallv")(
        np.zeros(comm.size), *alike_but_one(comm)
    ),
    "like": lambda comm, form: form(comm, "broadcast")({1.5: np.ones(1)}, like=None),
    "shapes": lambda comm, form: form(comm, "alltoall")(
        [np.zeros(1) for _ in range(comm.size)],
        out=[np.empty(count) for count in alike_but_one(comm)[1]],
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_whose_exchange_fails_counts_in_each_form(name):
    def each(comm):
        form = in_background if comm.rank % 2 else blocking
        with pytest.raises((ValueError, TypeError, collalgo.CollalgoError)) as caught:
            found = FAILING[name](comm, form)
            found.wait()
        comm.barrier()
        return runner_of(comm).recorder.calls, getattr(caught.value, "sequence", 1)

    assert {*threads(each, 3, timeout=60)} == {(2, 1)}


def test_arrays_that_only_the_root_cannot_describe_are_an_error_of_the_wait():
    def each(comm):
        work = comm.broadcast_async({1.5: np.ones(1)}, like=None)
        with pytest.raises((TypeError, collalgo.errors.InvalidElsewhere)):
            work.wait()
        return comm.allreduce(np.ones(1))[0]

    assert threads(each, 3, timeout=60) == [3] * 3


def test_an_op_that_calls_the_communicator_is_refused_within_a_continued_call():
    def each(comm):
        def nested(a, b):
            comm.allreduce(np.ones(1))
            return a + b

        total = total_rows(comm).astype(np.int32)
        work = comm.reduce_scatterv_async(total, op=nested, out=into(comm))
        with pytest.raises(collalgo.CollalgoError, match=r"signal handler|within"):
            work.wait()

    threads(each, 2, timeout=60)
