"""Calls that differ are a mismatch on every rank, with both sides."""

import numpy as np
import pytest

from collalgo import (
    MismatchError,
    threads,
)
from collalgo.engine import reduction, user_op

pytestmark = pytest.mark.deadline


def both_raise(calls, error, size=2):
    """Let the ranks make different calls: the messages of the error on each."""

    def on_each_rank(comm):
        with pytest.raises(error) as caught:
            calls(comm)
            comm.barrier(timeout=5)
        assert caught.value.rank == comm.rank
        return str(caught.value)

    return set(threads(on_each_rank, size, timeout=10))


@pytest.mark.parametrize("count", [4, 1000, 10**6])
def test_different_counts_are_a_mismatch_on_every_rank(count):
    def calls(comm):
        comm.allreduce(np.ones(count * (1 + (comm.rank == 2)), np.float32))

    (message,) = both_raise(calls, MismatchError, size=4)
    assert f"passed {2 * count} elements" in message
    assert f"passed {count} elements" in message
    assert message.endswith("; every rank must pass the same count")


def test_a_mismatch_after_the_first_call_may_be_of_a_skipped_call():
    def calls(comm):
        comm.allreduce(np.ones(3))
        if comm.rank != 2:
            comm.allreduce(np.ones(10))
        comm.allreduce(np.ones(1000))

    (message,) = both_raise(calls, MismatchError, size=3)
    assert message.endswith("same count, unless one of them has skipped a call before")


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (1, 10**6)])
def test_counts_that_lead_to_different_plans_are_a_mismatch(counts):
    def calls(comm):
        comm.allreduce(np.ones(counts[comm.rank], np.float32))

    (message,) = both_raise(calls, MismatchError)
    for count in counts:
        assert f"passed {count} elements" in message


def test_different_dtypes_of_the_same_bytes_are_a_mismatch():
    def calls(comm):
        comm.allreduce(np.ones(10, np.float64 if comm.rank else np.int64))

    (message,) = both_raise(calls, MismatchError)
    assert "passed float64" in message
    assert "passed int64" in message


def test_different_ops_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.allreduce(np.ones(10), "max" if comm.rank else "sum"),
        MismatchError,
    )
    assert "op 'max'" in message
    assert "every rank must pass the same op" in message


@pytest.mark.parametrize(("op", "dtype"), [("argmax", "f8"), ("min", "f4")])
def test_an_op_that_finds_ranks_differs_by_its_name(op, dtype):
    def calls(comm):
        own = ("argmin", "f8") if comm.rank else (op, dtype)
        comm.allreduce(np.ones(10, own[1]), own[0])

    (message,) = both_raise(calls, MismatchError)
    assert "passed op 'argmin'" in message
    assert f"passed op {op!r}" in message
    assert message.endswith("every rank must pass the same op")


@pytest.mark.parametrize("op", ["argmin", "argmax", "minloc", "replace"])
def test_ops_of_the_library_have_names_on_ranks_that_never_used_them(op, monkeypatch):
    monkeypatch.setattr(user_op, "_names", {})
    code = reduction.op_code(reduction.op_of(op, ""))
    monkeypatch.setattr(user_op, "_names", {})
    assert reduction.op_text(code) == op


def test_dtypes_of_ops_that_find_ranks_are_those_of_the_arrays():
    def calls(comm):
        comm.allreduce(np.ones(10, "f4" if comm.rank else "f8"), "argmin")

    (message,) = both_raise(calls, MismatchError)
    assert "passed float32 but" in message or "passed float64 but" in message
    assert message.endswith("; every rank must pass the same dtype")


def test_different_roots_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.broadcast(np.ones(10), comm.rank), MismatchError
    )
    assert "root 0" in message
    assert "root 1" in message


def test_different_algorithms_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.allreduce(
            np.ones(10), algorithm="ring" if comm.rank else "one_shot"
        ),
        MismatchError,
    )
    assert "algorithm 'ring'" in message


def test_calls_in_another_order_are_a_mismatch():
    def calls(comm):
        first, second = (comm.broadcast, comm.allreduce)[:: 1 - 2 * comm.rank]
        first(np.ones(10))
        second(np.ones(10))

    (message,) = both_raise(calls, MismatchError)
    assert "called broadcast but" in message or "called allreduce but" in message


def test_different_counts_for_a_rank_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.reduce_scatter(
            np.ones(10), counts=[4, 6] if comm.rank else [5, 5]
        ),
        MismatchError,
    )
    assert "different counts" in message
