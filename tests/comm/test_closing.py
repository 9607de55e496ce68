"""Who closes compares the calls with those of the others, if no call has done so.

A root returns before the others have made the call, so ranks that each take another one
for the root wait for nobody.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from gc import collect
from threading import Barrier

import numpy as np
import pytest

from collalgo import (
    CollalgoError,
    CommunicatorClosed,
    MismatchError,
    PeerFailed,
    threads,
)
from collalgo._kernels.engine.program import RUN_FAILED
from tests.support.leisure import at_leisure
from tests.support.remote_jobs import all_do
from tests.support.waiting import is_soon

SIZES = at_leisure((2, 3, 5, 7, 8, 12, 16, 17, 33), (2, 3, 8))


def closing(comm):
    """The error of closing, or None."""
    try:
        comm.close()
    except CollalgoError as error:
        return error
    return None


def outcomes(size, call, groups=lambda comm: comm.dup()):
    """What ranks are told as they close, one after the other, after calls of theirs."""
    called = Barrier(size, timeout=30)
    turns = [Barrier(2, timeout=30) for _ in range(size)]

    def on_each_rank(comm):
        part = groups(comm)
        call(part)
        called.wait()
        if comm.rank:
            turns[comm.rank].wait()
        error = closing(part)
        assert part.closed
        if comm.rank + 1 < size:
            turns[comm.rank + 1].wait()
        return error

    return threads(on_each_rank, size, timeout=30)


def each_is_root(comm):
    comm.broadcast(np.full(2, comm.rank), comm.rank)


@pytest.mark.parametrize("size", SIZES)
def test_ranks_that_each_were_the_root_are_told_as_they_close(size):
    found = outcomes(size, each_is_root)
    for rank, error in enumerate(found):
        assert isinstance(error, MismatchError)
        assert str(error).startswith(
            f"broadcast #1: rank {rank} passed root {rank} but"
        )
        assert (error.rank, error.sequence) == (rank, 1)


@pytest.mark.parametrize("size", SIZES)
def test_a_call_that_the_others_have_not_made_is_told_to_who_closes_later(size):
    def call(comm):
        comm.barrier()
        if comm.rank == 0:
            comm.broadcast(np.ones(3))

    first, *others = outcomes(size, call)
    assert first is None
    for rank, error in enumerate(others, 1):
        assert isinstance(error, MismatchError)
        mine = f"close: rank {rank}'s last call was barrier #1 ("
        assert str(error).startswith(mine)
        assert "rank 0's last call was broadcast #2 (3 float64" in str(error)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_first_call_that_differs_is_named(count):
    def call(comm):
        for _ in range(count):
            each_is_root(comm)

    for error in outcomes(3, call):
        assert isinstance(error, MismatchError)
        assert error.sequence == 1


@pytest.mark.parametrize("size", SIZES)
def test_ranks_of_which_all_calls_were_alike_close_in_silence(size):
    def call(comm):
        for root in range(comm.size):
            comm.broadcast(np.ones(3), root)
            comm.reduce(np.ones(3), root=root)
        comm.scan_async(np.ones(3)).wait()

    assert outcomes(size, call) == [None] * size


def test_the_ranks_of_a_group_are_told_and_no_others():
    def call(comm):
        comm.broadcast(np.ones(2), comm.rank if comm.size == 3 else 0)

    found = outcomes(5, call, lambda comm: comm.split(comm.rank < 3))
    assert [isinstance(each, MismatchError) for each in found] == [1, 1, 1, 0, 0]


def test_what_a_call_has_raised_is_not_raised_again():
    def on_each_rank(comm):
        part = comm.dup()
        with pytest.raises(MismatchError):
            each_is_root(part)
            part.barrier()
        part.close()

    threads(on_each_rank, 4, timeout=30)


def test_the_error_of_the_user_is_not_hidden_by_that_of_closing():
    def on_each_rank(comm):
        with pytest.raises(KeyError), comm.dup() as part:
            each_is_root(part)
            comm.barrier()
            raise KeyError
        with pytest.raises(MismatchError), comm.dup() as part:
            each_is_root(part)
            comm.barrier()

    threads(on_each_rank, 3, timeout=30)


def test_calls_given_up_in_the_background_are_no_mismatch():
    def on_each_rank(comm):
        part = comm.dup()
        work = part.broadcast_async(np.ones(3))
        part.close()
        with pytest.raises(CollalgoError):
            work.wait()
            raise PeerFailed("done before")

    threads(on_each_rank, 3, timeout=30)


def test_who_finds_a_peer_closed_is_told_of_the_call_before_that_differed():
    closed = Barrier(3, timeout=30)

    def on_each_rank(comm):
        part = comm.dup()
        part.broadcast(np.ones(2), comm.rank)
        if comm.rank != 2:
            with pytest.raises(MismatchError):
                part.close()
                raise MismatchError("the other one is told")
            closed.wait()
            return
        closed.wait()
        with pytest.raises(MismatchError, match=r"broadcast #1: rank \d passed root"):
            part.barrier()
        part.close()

    threads(on_each_rank, 3, timeout=30)


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", at_leisure(["1+1", "1+1+1", "3+2"], ["1+1", "2+1"]))
def test_ranks_of_several_hosts_compare_their_calls_as_they_close(layout):
    all_do("close_differing", layout)


def test_a_call_that_another_thread_of_its_rank_closes_is_told_so():
    closed = Barrier(2, timeout=30)

    def on_each_rank(comm):
        if comm.rank:
            closed.wait()
            with suppress(PeerFailed):  # unless the other rank has arrived
                comm.barrier()
            return
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(comm.barrier)
            assert is_soon(lambda: comm._runner.context.transport.entered(0))
            comm.close()
            with pytest.raises(CommunicatorClosed, match="this rank has closed"):
                waiting.result(30)
            closed.wait()

    threads(on_each_rank, 2, timeout=30)


def test_a_call_that_fails_while_its_rank_closes_is_told_so():
    """Its thread reads the failure when the memory is gone."""

    def on_each_rank(comm):
        recovery = comm._runner.recovery
        comm.close()
        with pytest.raises(CommunicatorClosed, match="allreduce: this communicator is"):
            recovery.raise_failure("allreduce", RUN_FAILED)

    threads(on_each_rank, 2, timeout=30)


def test_a_world_knows_its_groups_until_they_are_closed_or_released():
    """As it ends because of an error, it leaves them, too."""

    def on_each_rank(comm):
        known = comm._runner.context.groups
        group = comm.dup()
        inner = group.split(comm.rank)
        assert known == {group._runner.context, inner._runner.context}
        group.close()
        assert known == {inner._runner.context}
        del inner
        collect()
        assert known == set()

    threads(on_each_rank, 2, timeout=30)
