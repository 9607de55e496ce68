"""Calls that make groups are compared with what the other ranks call instead."""

import time
from threading import Barrier

import numpy as np
import pytest

from collalgo import CollectiveTimeout, MismatchError, PeerFailed, spawn, threads
from collalgo.bootstrap.group_calls import WORDS, GroupCall, shortened
from tests.comm.test_differing import told as told_by_case
from tests.support.leisure import at_leisure
from tests.support.remote_jobs import all_do

SIZES = at_leisure((2, 3, 5, 7, 8, 12, 16, 17, 33), (2, 3, 8))


def everyone(comm):
    return comm.group(range(comm.size))


#: Calls by name, of which no two may meet; the first two wait for members only.
CALLS = {
    "group": everyone,
    "local": lambda comm: comm.local,
    "dup": lambda comm: comm.dup(),
    "split": lambda comm: comm.split(0),
    "allreduce": lambda comm: comm.allreduce(np.ones(2)),
    "barrier": lambda comm: comm.barrier(),
    "allgatherv": lambda comm: comm.allgatherv(np.ones(2)),
}

PAIRS = [
    (one, other)
    for one in ("group", "local", "dup", "split")
    for other in CALLS
    if one != other and {one, other} != {"group", "local"}
]


def told(size, call, run=threads, timeout=60):
    """What each rank is told in a call after a right one."""

    def on_each_rank(comm):
        comm.barrier()
        try:
            call(comm)
        except MismatchError as error:
            with pytest.raises((MismatchError, PeerFailed)):
                comm.barrier()
            return str(error), error.sequence
        return "nothing", 0

    return run(on_each_rank, size, timeout=timeout)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_another_call_beside_one_that_makes_a_group_is_told_to_all(one, other):
    odd = len(other) % 3
    found = told(3, lambda comm: CALLS[one if comm.rank == odd else other](comm))
    assert len(set(found)) == 1, found
    text, number = found[0]
    assert text.startswith("call #2: rank ")
    assert f"rank {odd} called {one}" in text
    assert f" called {other}" in text
    assert number == 2


def differing_lists(kind, size):
    """The ranks of a group as most name them, and as rank 0 does."""
    usual = list(range(size))
    if kind == "order":
        return usual, usual[::-1]
    if size == 2:
        pytest.skip("a group of one rank waits for nobody")
    return (usual, usual[:-1]) if kind == "fewer" else (usual[:-1], usual)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["order", "fewer", "more"])
def test_other_ranks_in_a_list_are_told_to_all_with_both_lists(size, kind):
    usual, other = differing_lists(kind, size)

    def call(comm):
        listed = usual if comm.rank else other
        if comm.rank in listed:
            comm.group(listed)
        time.sleep(0.8)  # as who leaves would be told of first

    found = told(size, call)
    told_to = usual if kind == "more" else range(size)
    assert len({found[rank] for rank in told_to}) == 1, found
    text, number = found[0]
    assert text.startswith("group #2: rank ")
    assert shortened(usual) in text
    assert shortened(other) in text
    assert number == 2


def test_processes_are_told_too():
    found = spawn(_other_order, 3, timeout=60)
    assert len(set(found)) == 1
    assert "[2, 1, 0]" in found[0]
    assert "[0, 1, 2]" in found[0]


def _other_order(comm):
    try:
        comm.group([0, 1, 2][:: 1 if comm.rank else -1])
    except MismatchError as error:
        return str(error)
    return "nothing"


def test_groups_that_overlap_may_be_made_one_after_the_other():
    """Rank 1 stays in another group for long, of which rank 0 is no member."""

    def on_each_rank(comm):
        if comm.rank == 0:
            comm.group([0, 1])
        elif comm.rank == 1:
            comm.group([1, 2])
            comm.group([0, 1])
        elif comm.rank == 2:
            time.sleep(0.8)
            comm.group([1, 2])
        comm.barrier()

    threads(on_each_rank, 4, timeout=60)


def test_ranks_that_are_not_members_may_be_in_other_calls_for_long():
    def on_each_rank(comm):
        if comm.rank < 2:
            time.sleep(0.8 * comm.rank)
            comm.group([0, 1])
        comm.barrier()

    threads(on_each_rank, 3, timeout=60)


def test_a_call_in_the_background_may_be_under_way():
    def on_each_rank(comm):
        work = comm.allreduce_async(np.ones(3))
        time.sleep(0.8 * comm.rank)
        assert everyone(comm).size == comm.size
        assert work.wait()[0] == comm.size

    threads(on_each_rank, 2, timeout=60)


def test_ranks_that_are_left_after_a_failure_make_a_group():
    closed = Barrier(3, timeout=30)

    def on_each_rank(comm):
        part = comm.dup()
        if comm.rank == 2:
            part.close()
        closed.wait()
        if comm.rank < 2:
            with pytest.raises(PeerFailed):
                part.barrier()
            assert part.group([1, 0]).allreduce(np.ones(1))[0] == 2

    threads(on_each_rank, 3, timeout=30)


@pytest.mark.parametrize("by_variable", [False, True])
def test_the_wait_for_a_member_ends_at_the_timeout(by_variable, monkeypatch):
    if by_variable:
        monkeypatch.setenv("COLLALGO_TIMEOUT", "0.5")
    done = Barrier(2, timeout=30)

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout, match=r"waited 0\.5 s") as caught:
                everyone(comm)
            assert caught.value.missing == (1,)
            assert "rank 1 of the group [0, 1]" in str(caught.value)
        done.wait()

    threads(on_each_rank, 2, **({} if by_variable else {"timeout": 0.5}))


@pytest.mark.parametrize("size", [1, 2, 3, 12, 100, 4096, 9999])
def test_ranks_fit_into_a_record(size):
    ranks = range(size)
    record = GroupCall("group", tuple(ranks), 1).record(1, 1)
    assert len(record["algorithm"]) <= WORDS
    assert shortened(ranks)[:2] == "[0"
    assert str(size - 1) in shortened(ranks)
    other = GroupCall("group", tuple(ranks)[::-1], 1).record(1, 1)
    assert (record["fingerprint"] == other["fingerprint"]) == (size == 1)


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", at_leisure(["1+1", "2+1", "1+1+1", "3+2"], ["2+1"]))
def test_ranks_of_several_hosts_are_told(layout):
    output = all_do("groups_differ", layout).stdout
    found = told_by_case(output)
    size = sum(map(int, layout.split("+")))
    assert set(found) == {"order", "dup", "reduce", "late", "local"}
    for case, sentences in found.items():
        assert set(sentences) == set(range(size)), (case, sentences)
        (sentence,) = set(sentences.values())
        words = {"order": "group #2", "local": ""}.get(case, "call #2")
        assert sentence.startswith(words), (case, sentence)
