"""Calls like the last one, which skip checks, beside those that only look like it."""

import itertools

import numpy as np
import pytest

import collalgo
from collalgo import Op

SIZE = 3
MAXIMUM = Op(np.maximum, identity=-1)


def contribution(rank, kind, count):
    """The array of a rank: some of the calls in a row differ in their layout only."""
    values = (np.arange(count) + 7 * rank) % 11
    if kind == "strided":
        wide = np.zeros(2 * count, np.int32)
        wide[::2] = values
        return wide[::2]
    if kind == "of two axes":
        return values.astype(np.int32).reshape(2, -1)
    return values.astype(kind)


KINDS = ["i4", "strided", "of two axes", ">i4", "i1", "f4", ">f4"]
OPS = ["sum", "max", "avg", MAXIMUM]


def expected(op, kind, count, ranks):
    """The reduction of the arrays of some ranks by NumPy."""
    every = np.stack([contribution(r, kind, count) for r in ranks]).astype("f8")
    if op == "avg":
        mean = every.sum(0) / SIZE
        return mean if kind.endswith("f4") else np.floor(mean)
    return every.sum(0) if op == "sum" else every.max(0)


@pytest.mark.parametrize("call", ["allreduce", "reduce", "scan", "exscan"])
def test_each_call_of_a_row_gives_its_own_result(call):
    row = [*itertools.product(OPS, KINDS, [4, 4, 6])]
    row += [each for pair in zip(row, row[::-1], strict=True) for each in pair]

    def job(comm):
        for number, (op, kind, count) in enumerate(row):
            if op == "avg" and call in ("scan", "exscan"):
                continue
            mine = contribution(comm.rank, kind, count)
            root = number % SIZE
            named = {"root": root} if call == "reduce" else {}
            found = getattr(comm, call)(mine, op, **named)
            last = {"scan": comm.rank + 1, "exscan": comm.rank}.get(call, SIZE)
            if call == "reduce" and comm.rank != root:
                assert found is None
            elif last:
                right = expected(op, kind, count, range(last))
                np.testing.assert_allclose(found, right, rtol=1e-6)
            elif op is MAXIMUM:
                assert (found == -1).all()  # the identity, as no rank precedes

    collalgo.threads(job, SIZE)


def test_another_out_and_root_are_no_repetition():
    def job(comm):
        x = np.full(4, comm.rank + 1.0)
        for number in range(9):
            out = np.zeros(4) if number % 2 else None
            given = x.copy()
            found = comm.allreduce(given, out=out)
            assert (found == 6).all()
            assert (given == (x if number % 2 else 6)).all()
            sent = np.full(2, comm.rank)
            assert (comm.broadcast(sent, number % SIZE) == number % SIZE).all()
            comm.barrier()

    collalgo.threads(job, SIZE)


def test_a_wrong_call_after_a_right_one_is_refused():
    def job(comm):
        x = np.ones(4)
        comm.allreduce(x)
        x.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            comm.allreduce(x)
        with pytest.raises(ValueError, match="timeout"):
            comm.allreduce(np.ones(4), timeout=-1)
        with pytest.raises(ValueError, match="root"):
            comm.broadcast(np.ones(4), SIZE)

    collalgo.threads(job, SIZE)
