"""What the calls that scatter, gather and swap refuse, and what they tell all ranks."""

import threading
from functools import partial

import numpy as np
import pytest

from collalgo import CollectiveTimeout, MismatchError, threads

RANKS = 3


def test_what_an_alltoall_refuses_before_it_sends():
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
        with pytest.raises(ValueError, match=r"rank 0 sends -1 rows to rank 0; .*"):
            comm.alltoallv(x, [[-1, 5, 0]] * 3)
        counts = [2, 2, 0] if comm.rank != 1 else [5, 0, -1]
        with pytest.raises(ValueError, match=r"rank 1 sends -1 rows to rank 2; .*"):
            comm.alltoallv(x, counts)
        with pytest.raises(ValueError, match=r"count for rank 1 is -1; .* 3 numbers"):
            comm.allgatherv(x, [4, -1, 4])

    threads(on_each_rank, RANKS)


def test_what_calls_with_a_root_refuse_before_they_send():
    def on_each_rank(comm):
        x = np.ones(4)
        with pytest.raises(ValueError, match="axis 0 of the root's array has length 4"):
            comm.scatter(x, root=comm.rank)
        with pytest.raises(ValueError, match=r"passed 4 rows but counts \[1, 1, 1\]"):
            comm.scatterv(x, [1, 1, 1], root=comm.rank)
        with pytest.raises(
            ValueError, match=r"out has shape \(4,\) but the result has"
        ):
            comm.gather(x, root=comm.rank, out=x)
        with pytest.raises(ValueError, match="root 3 is out of range"):
            comm.gather(x, root=3)
        with pytest.raises(TypeError, match="scatter: needs an array"):
            comm.scatter([1, 2, 3])

    threads(on_each_rank, RANKS)


def test_what_a_scan_refuses_before_it_sends():
    def on_each_rank(comm):
        x = np.ones(4)
        with pytest.raises(ValueError, match="scan has no op 'avg'"):
            comm.scan(x, "avg")
        with pytest.raises(
            TypeError, match="out has dtype float32 but buf has float64"
        ):
            comm.exscan(x, out=x.astype(np.float32))

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


def test_a_broadcast_with_like_on_some_ranks_alone_asks_for_like():
    def on_each_rank(comm):
        like = np.ones(2) if comm.rank else None
        with pytest.raises(
            MismatchError, match="rank 0 did not pass `like` but rank 1"
        ):
            comm.broadcast(np.ones(2), like=like)
            comm.barrier()

    threads(on_each_rank, 2, timeout=60)
