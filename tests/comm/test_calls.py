"""The calls that scatter, gather, swap and scan: shapes, memory, what is refused."""

import threading
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import CollectiveTimeout, MismatchError, threads
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.dump import named_records

pytestmark = pytest.mark.parallel

RANKS = 3


def test_the_functions_are_the_methods():
    def on_each_rank(comm):
        rank, size = comm.rank, comm.size
        x = np.full(2, rank)
        got = collalgo.gather(x, comm, root=1)
        assert (got is None) == (rank != 1)
        got = collalgo.gatherv(x[: rank % 3], comm, root=1)
        assert got is None or got.tolist() == [1, 2, 2]
        table = np.arange(2 * size).reshape(size, 2) if rank == 1 else np.zeros(2, int)
        assert collalgo.scatter(table, comm, root=1).tolist() == [
            2 * rank,
            2 * rank + 1,
        ]
        rows = np.arange(size) if rank == 0 else np.empty(1, int)
        assert collalgo.scatterv(rows, comm).tolist() == [rank]
        assert collalgo.alltoall(np.arange(size) + 10 * rank, comm).tolist() == [
            rank + 10 * i for i in range(size)
        ]
        counts = [1] * size
        assert (
            collalgo.alltoallv(np.arange(size), comm, counts).tolist() == [rank] * size
        )
        assert collalgo.scan(np.array([2]), comm, "prod").tolist() == [2 ** (rank + 1)]
        assert collalgo.exscan(np.array([2]), comm).tolist() == [2 * rank or 2]

    threads(on_each_rank, RANKS)


def test_shapes_of_more_than_one_axis():
    def on_each_rank(comm):
        rank, size = comm.rank, comm.size
        x = np.full((2, 3), rank, np.int16)
        assert comm.alltoallv(
            np.repeat(x[None], size, axis=0).reshape(2 * size, 3), [2] * size
        ).shape == (2 * size, 3)
        got = comm.gatherv(x[:rank], root=2)
        assert got is None or got.shape == (0 + 1 + 2, 3)
        source = np.arange(size * 6).reshape(size, 2, 3) if rank == 0 else x.astype(int)
        assert (
            comm.scatter(source).tolist()
            == np.arange(6).reshape(2, 3).__add__(6 * rank).tolist()
        )
        assert comm.gather(np.array(rank), root=0) is None or rank == 0

    threads(on_each_rank, RANKS)


def test_arrays_that_are_not_contiguous_are_packed_and_unpacked():
    def on_each_rank(comm):
        rank, size = comm.rank, comm.size
        columns = np.arange(4 * size).reshape(size, 4)[:, ::2] + 100 * rank
        swapped = comm.alltoall(columns)
        assert swapped[:, 0].tolist() == [4 * rank + 100 * i for i in range(size)]
        wide = np.zeros((size, 4), int)
        comm.alltoall(columns, out=wide[:, 1::2])
        assert wide[:, 1::2].tolist() == swapped.tolist()
        assert not wide[:, ::2].any()
        mine = np.zeros(6)[::2]
        source = (
            np.arange(2 * size * 3.0).reshape(2 * size, 3)[::2] if rank == 1 else mine
        )
        got = comm.scatter(source, root=1)
        assert got.tolist() == [6 * rank, 6 * rank + 1, 6 * rank + 2]
        got = comm.gather(mine, root=2)
        assert got is None or got[0].tolist() == [0, 1, 2]
        one = np.ones(8)[::2]
        assert comm.scan(one) is one
        assert one.tolist() == [rank + 1.0] * 4

    threads(on_each_rank, RANKS)


def test_nothing_is_written_into_what_has_no_result():
    def on_each_rank(comm):
        wide = np.full(8, 5.0)
        comm.exscan(np.ones(4), out=wide[::2])
        before = float(comm.rank) or 5.0
        assert wide.tolist() == [before, 5.0] * 4

    threads(on_each_rank, RANKS)


def test_the_root_of_a_scatter_only_reads():
    def on_each_rank(comm):
        source = np.arange(comm.size)
        source.flags.writeable = False
        if comm.rank:
            source = np.zeros((), source.dtype)
        assert comm.scatter(source) == comm.rank
        if comm.rank == 0:
            with pytest.raises(ValueError, match="read-only"):
                comm.group([0]).scan(source)

    threads(on_each_rank, RANKS)


def test_what_each_call_refuses_before_it_sends():
    def on_each_rank(comm):
        x = np.ones(4)
        with pytest.raises(ValueError, match="length 4, not a multiple of the 3"):
            comm.alltoall(x)
        with pytest.raises(
            ValueError, match="out overlaps buf; pass an array with mem"
        ):
            comm.alltoall(x[:3], out=x[:3])
        with pytest.raises(ValueError, match="add up to 3; they must be equal"):
            comm.alltoallv(x, np.ones((3, 3), int))
        with pytest.raises(ValueError, match=r"counts of shape \(2,\) must be the 3"):
            comm.alltoallv(x, [2, 2])
        with pytest.raises(ValueError, match="none negative"):
            comm.alltoallv(x, [[-1, 5, 0]] * 3)
        with pytest.raises(ValueError, match="axis 0 of the root's array has length 4"):
            comm.scatter(x, root=comm.rank)
        with pytest.raises(ValueError, match=r"passed 4 rows but counts \[1, 1, 1\]"):
            comm.scatterv(x, [1, 1, 1], root=comm.rank)
        with pytest.raises(ValueError, match="scan has no op 'avg'"):
            comm.scan(x, "avg")
        with pytest.raises(
            TypeError, match="out has dtype float32 but buf has float64"
        ):
            comm.exscan(x, out=x.astype(np.float32))
        with pytest.raises(
            ValueError, match=r"out has shape \(4,\) but the result has"
        ):
            comm.gather(x, root=comm.rank, out=x)
        with pytest.raises(ValueError, match="root 3 is out of range"):
            comm.gather(x, root=3)
        with pytest.raises(TypeError, match="scatter: needs an array"):
            comm.scatter([1, 2, 3])

    threads(on_each_rank, RANKS)


def test_with_out_only_the_root_of_a_scatter_needs_an_array():
    def on_each_rank(comm):
        rows, out = np.arange(12.0).reshape(RANKS, 4), np.empty(4)
        for root in range(RANKS):
            for buf in (rows, rows if comm.rank == root else None):
                out[...] = -1
                assert comm.scatter(buf, root, out=out) is out
                assert (out == rows[comm.rank]).all()
            part = np.empty((1, 4))
            assert comm.scatterv(buf, [1] * RANKS, root, out=part) is part
            assert (part == rows[comm.rank]).all()
        work = comm.scatter_async(rows if comm.rank == 0 else None, out=out)
        assert (work.wait() == rows[comm.rank]).all()
        out.flags.writeable = False
        with pytest.raises(ValueError, match="out is read-only"):
            comm.scatter(rows, root=comm.rank, out=out)

    threads(on_each_rank, RANKS)


def test_counts_of_a_scatterv_that_do_not_fit_are_told_to_every_rank():
    def on_each_rank(comm):
        rows = 2 if comm.rank == 0 else 5
        with pytest.raises(ValueError, match=r"the root, rank 0, passed 2 rows .* 10"):
            comm.scatterv(np.zeros(rows))

    threads(on_each_rank, RANKS)


def test_different_calls_are_caught():
    def different_counts(comm):
        with pytest.raises(MismatchError, match=r"passed [68] elements but"):
            comm.alltoall(np.ones(6 if comm.rank == 0 else 8))

    def different_tables(comm):
        table = np.ones((2, 2), int)
        if comm.rank:
            table[0, 0], table[1, 0] = 0, 2
        with pytest.raises(MismatchError, match="different counts"):
            comm.alltoallv(np.ones(2 + comm.rank), table)

    def scan_and_exscan(comm):
        """Rank 0 only sends: it learns of it when it next waits."""
        with pytest.raises(MismatchError, match=r"called (ex)?scan but rank"):
            getattr(comm, "scan" if comm.rank else "exscan")(np.ones(2))
            comm.barrier()

    for calls in (different_counts, different_tables, scan_and_exscan):
        threads(calls, 2)


def test_a_missing_rank_is_named():
    seen = threading.Event()

    def on_each_rank(comm):
        if comm.rank == 1:
            seen.wait(60)
            return
        with pytest.raises(CollectiveTimeout, match="gather #1") as found:
            comm.gather(np.ones(1), timeout=0.3)
        assert found.value.missing == (1,)
        seen.set()

    threads(on_each_rank, 2)


def test_zero_elements_and_one_rank():
    def on_each_rank(comm):
        none = np.empty((0, 3))
        assert comm.alltoall(none).shape == (0, 3)
        assert comm.scan(none) is none
        comm.exscan(none)
        got = comm.gather(none, root=0)
        assert got is None or got.shape == (comm.size, 0, 3)

    for size in (1, 2, 4):
        threads(on_each_rank, size)


def test_an_uneven_alltoall_with_large_and_small_blocks():
    """The hybrid sends the large ones directly and the others by Bruck."""

    def on_each_rank(comm):
        size, rank = comm.size, comm.rank
        counts = np.array(
            [
                [5000 if (i + j) % 3 == 0 else j for j in range(size)]
                for i in range(size)
            ]
        )
        blocks = [np.full(n, 100 * rank + j) for j, n in enumerate(counts[rank])]
        expected = np.concatenate(
            [np.full(n, 100 * i + rank) for i, n in enumerate(counts[:, rank])]
        )
        for name in ("hybrid", "bruck", "two_step", None):
            found = comm.alltoallv(np.concatenate(blocks), counts, algorithm=name)
            np.testing.assert_array_equal(found, expected)

    threads(on_each_rank, 5)


#: Calls with the counts of all ranks, or with None, of arrays of rank + 1 rows.
WITH_COUNTS = {
    "allgatherv": lambda comm, counts: comm.allgatherv(np.ones(comm.rank + 1), counts),
    "gatherv": lambda comm, counts: comm.gatherv(np.ones(comm.rank + 1), counts),
    "scatterv": lambda comm, counts: comm.scatterv(
        np.ones(comm.rank + 1 if comm.rank else comm.size * (comm.size + 1) // 2),
        counts,
    ),
    "alltoallv": lambda comm, counts: comm.alltoallv(
        np.ones(comm.size),
        [1] * comm.size if counts is None else [[1] * comm.size] * comm.size,
    ),
}


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("call", WITH_COUNTS)
def test_counts_of_some_ranks_alone_are_asked_for_by_name(call, size):
    def on_each_rank(comm, alone):
        counts = [rank + 1 for rank in range(size)]
        WITH_COUNTS[call](comm, counts)
        WITH_COUNTS[call](comm, None)
        with pytest.raises(
            MismatchError,
            match=rf"^{call} #\d: rank \d did not pass the counts of all ranks but "
            r"rank \d did; pass them on every rank, or on none",
        ):
            WITH_COUNTS[call](comm, counts if comm.rank == alone else None)
            comm.barrier()

    for alone in {0, size - 1}:
        threads(partial(on_each_rank, alone=alone), size, timeout=60)


INSIDE = {
    "split": lambda comm: comm.split(0),
    "allgatherv": lambda comm: comm.allgatherv(np.ones(comm.rank)),
    "gatherv": lambda comm: comm.gatherv(np.ones(comm.rank)),
    "scatterv": lambda comm: comm.scatterv(np.ones(3 * comm.size)),
    "alltoallv": lambda comm: comm.alltoallv(np.ones(3), [1, 1, 1]),
}


@pytest.mark.parametrize("call", INSIDE)
def test_calls_that_the_library_makes_inside_do_not_show(call):
    def on_each_rank(comm):
        with pytest.raises(
            MismatchError,
            match=rf"called ({call}|barrier) but rank \d called {call}|ba",
        ) as caught:
            INSIDE[call](comm) if comm.rank else comm.barrier()
            comm.barrier()
        assert "allgather " not in str(caught.value)
        records = named_records(runner_of(comm).recorder)
        assert "allgather" not in {record["collective"] for record in records}

    threads(on_each_rank, 3, timeout=60)


def means(comm, x, want):
    """The mean of arrays that are alike on all ranks, by every call that reduces."""
    out = np.zeros_like(x)
    yield comm.allreduce(x.copy(), "avg")
    yield comm.allreduce(np.repeat(x, 2)[::2], "mean")
    yield comm.allreduce(x, "avg", out=out)
    found = comm.reduce(x.copy(), "avg", comm.size - 1)
    yield want if found is None else found
    yield comm.reduce_scatter(x, "avg")
    yield comm.reduce_scatter(x, "avg", [len(x)] + [0] * (comm.size - 1))
    twice = x.copy()
    comm.allreduce_async(twice, "avg")
    yield comm.allreduce_async(twice, "avg").wait()
    again = comm.persistent_allreduce(twice, "avg")
    again()
    yield again.start().wait()
    bucket = comm.bucket("avg")
    bucket.allreduce(twice)
    bucket.wait()
    yield twice


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_mean_of_integers_is_right_though_their_sum_exceeds_their_dtype(dtype, size):
    def on_each_rank(comm):
        limits = np.iinfo(dtype)
        for value in (limits.max, limits.min, limits.max - 1, 3):
            x = np.full(2 * size, value, dtype)
            for found in means(comm, x, x):
                assert found.dtype == dtype
                assert (found == value).all()
            assert (x == value).all()

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 16])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_mean_of_integers_is_that_of_exact_sums(dtype, size):
    limits, dice = np.iinfo(dtype), np.random.default_rng(size)
    inputs = dice.integers(limits.min, limits.max, (size, 33), dtype, endpoint=True)
    inputs[:, 0], inputs[:, 1] = limits.min, limits.max
    expected = [sum(map(int, column)) // size for column in inputs.T]

    def on_each_rank(comm):
        x = inputs[comm.rank]
        assert comm.allreduce(x.copy(), "avg").tolist() == expected
        assert comm.allreduce(x.copy(), "avg", algorithm="ring").tolist() == expected
        assert comm.allreduce(x[:1].reshape(()).copy(), "avg") == expected[0]

    threads(on_each_rank, size, timeout=60)


def test_means_of_integers_of_different_dtypes_are_a_mismatch():
    def on_each_rank(comm):
        dtype = np.int64 if comm.rank else np.int32
        with pytest.raises(MismatchError, match=r"allreduce #1: .* op 'avg of "):
            comm.allreduce(np.ones(6, dtype), "avg")
            comm.barrier()

    threads(on_each_rank, 2, timeout=60)


def test_a_mean_of_integers_is_rounded_down():
    def on_each_rank(comm):
        x = np.array([-3, 3, -4, 7], np.int8) + (comm.rank == 0)
        assert comm.allreduce(x, "avg").tolist() == [-3, 3, -4, 7]

    threads(on_each_rank, 2, timeout=60)
