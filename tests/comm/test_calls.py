"""The calls that scatter, gather, swap and scan: shapes, memory, what is refused."""

import numpy as np
import pytest

import collalgo
from collalgo import MismatchError, threads
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.dump import named_records

RANKS = 3


def test_the_functions_with_a_root_are_the_methods():
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

    threads(on_each_rank, RANKS)


def test_the_functions_without_a_root_are_the_methods():
    def on_each_rank(comm):
        rank, size = comm.rank, comm.size
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
        one = np.ones(8)[::2]
        assert comm.scan(one) is one
        assert one.tolist() == [rank + 1.0] * 4

    threads(on_each_rank, RANKS)


def test_arrays_of_a_root_that_are_not_contiguous_are_packed_and_unpacked():
    def on_each_rank(comm):
        rank, size = comm.rank, comm.size
        mine = np.zeros(6)[::2]
        source = (
            np.arange(2 * size * 3.0).reshape(2 * size, 3)[::2] if rank == 1 else mine
        )
        got = comm.scatter(source, root=1)
        assert got.tolist() == [6 * rank, 6 * rank + 1, 6 * rank + 2]
        got = comm.gather(mine, root=2)
        assert got is None or got[0].tolist() == [0, 1, 2]

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
