"""Survivors go on: all of them agree on the lost ranks, and form a new communicator.

Ranks are threads; a rank that aborts its communicator stands for one that dies. What
needs processes is in test_surviving_processes.py.
"""

import random
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import numpy as np
import pytest

from collalgo import (
    CollectiveTimeout,
    CommunicatorClosed,
    CommunicatorRevoked,
    PeerFailed,
    threads,
)
from collalgo._kernels.engine.transport import survivors
from collalgo.comm.current import runner_of
from collalgo.engine.transport import thread


def shared_of(comm):
    return runner_of(comm).context.shared


def sum_of(comm):
    """An allreduce whose result tells who took part."""
    return int(comm.allreduce(np.array([1]))[0])


def survivors_of(size, dead):
    """Let ranks die, and the others go on: what the new communicators are."""

    def on_each_rank(comm):
        if comm.rank in dead:
            comm.abort("planted")
            return None
        with pytest.raises(PeerFailed):
            while True:
                comm.barrier()
        with comm, comm.shrink(timeout=20) as left:
            who = left.allgather(np.array([comm.rank])).ravel().tolist()
            return left.rank, left.size, who

    return threads(on_each_rank, size, timeout=30)


@pytest.mark.parametrize(
    ("size", "dead"),
    [
        (2, {0}), (2, {1}), (3, {1}), (5, {0, 4}), (7, {1, 2, 3, 4, 5}), (8, {7}),
        (12, {0, 1, 2, 3}), (16, set(range(15))), (17, {5, 9}), (33, {0, 31, 32}),
    ],
)  # fmt: skip
def test_the_survivors_keep_their_order(size, dead):
    alive = [rank for rank in range(size) if rank not in dead]
    for rank, found in enumerate(survivors_of(size, dead)):
        if rank in dead:
            assert found is None
        else:
            assert found == (alive.index(rank), len(alive), alive)


def test_nobody_needs_to_be_gone():
    def on_each_rank(comm):
        for number in range(3):  # in turn, and of what has been shrunk before
            comm = comm.shrink(timeout=20)
            assert sum_of(comm) == 5 - number
            if comm.rank == comm.size - 1:
                return comm.abort("planted")
        return None

    threads(on_each_rank, 5)


def test_a_communicator_may_be_shrunk_again():
    def on_each_rank(comm):
        first = comm.shrink(timeout=20)
        if first.rank == 1:
            comm.abort("planted")
            return first.close()
        second = comm.shrink(timeout=20)
        assert sum_of(second) == 2
        with pytest.raises(CommunicatorRevoked):
            comm.barrier()
        return None

    threads(on_each_rank, 3)


def test_groups_are_shrunk_apart_from_their_world():
    def on_each_rank(comm):
        part = comm.split(comm.rank % 2)
        if comm.rank == 3:
            return part.abort("planted")
        if comm.rank % 2:
            part = part.shrink(timeout=20)
            assert sum_of(part) == 2
        else:
            assert sum_of(part) == 3
        return None

    threads(on_each_rank, 6)


def test_a_rank_that_does_not_come_is_named():
    given_up = Barrier(3)

    def on_each_rank(comm):
        if comm.rank != 1:
            with pytest.raises(CollectiveTimeout, match=r"for ranks \[1\], which are"):
                comm.shrink(timeout=0.3)
        given_up.wait(20)

    threads(on_each_rank, 3)


def test_survivors_come_again_after_a_timeout():
    late = Event()

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout):
                comm.shrink(timeout=0.1)
            late.set()
        assert late.wait(20)
        assert sum_of(comm.shrink(timeout=20)) == 3

    threads(on_each_rank, 3)


def test_revoking_ends_calls_messages_and_calls_in_the_background():
    ready = Barrier(4)

    def on_each_rank(comm):
        work = comm.allreduce_async(np.ones(10)) if comm.rank == 3 else None
        ready.wait(20)
        if comm.rank == 0:
            comm.revoke()
        elif comm.rank == 1:
            with pytest.raises(CommunicatorRevoked, match="rank 0 has revoked"):
                comm.allreduce(np.ones(10))
        elif comm.rank == 2:
            with pytest.raises(CommunicatorRevoked, match="recv: rank 0 has revoked"):
                comm.recv(np.empty(3), 1)
        else:
            with pytest.raises(CommunicatorRevoked):
                work.wait()
        with pytest.raises(CommunicatorRevoked) as caught:
            comm.allreduce(np.ones(1))
        assert (caught.value.rank, caught.value.missing) == (comm.rank, (0,))
        assert sum_of(comm.shrink(timeout=20)) == 4

    threads(on_each_rank, 4)


def test_shrinking_breaks_off_who_is_still_in_a_call():
    def on_each_rank(comm):
        comm.barrier()
        if comm.rank == 1:
            comm.abort("planted")
            return
        if comm.rank == 0:  # which waits for nobody that is gone
            with pytest.raises(CommunicatorRevoked):
                comm.recv(np.empty(1), 2)
        assert sum_of(comm.shrink(timeout=20)) == 2

    threads(on_each_rank, 3)


def check_are_one(decisions):
    """Check that all ranks found the same as far as they lived: all three decisions."""
    longest = max(decisions, key=len)
    assert len(longest) == 3
    for rank, found in enumerate(decisions):
        assert found == longest[: len(found)]
        assert all(rank not in gone for gone in found)
    return longest


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("seed", range(4))
def test_all_accept_one_decision_whatever_dies_meanwhile(size, seed):
    """The agreement alone: ranks leave at random moments, between two rounds."""
    rng = random.Random(f"{size} {seed}")
    world = thread.world(size)
    lives = [rng.choice([0, 1, 2, 9]) for _ in range(size - 1)] + [9]
    rng.shuffle(lives)

    def take_part(rank):
        found = []
        for number in range(1, 4):
            if number > lives[rank]:
                world[rank].announce_leaving("planted", True)
                break
            survivors.enter_round(world[rank], number)
            while (gone := survivors.await_decision(world[rank], number, 1.0)) is None:
                pass
            found.append(gone)
        return found

    with ThreadPoolExecutor(size) as pool:
        decisions = list(pool.map(take_part, range(size), timeout=60))
    longest = check_are_one(decisions)
    for number, gone in enumerate(longest, 1):
        assert set(gone) == {rank for rank in range(size) if lives[rank] < number}


def in_two_threads(comm, first, second):
    """What two calls return or raise, of which the second is made during the first."""
    with ThreadPoolExecutor(2) as pool:
        begun = pool.submit(first)
        while comm.rank in survivors.missing(shared_of(comm), 1):
            assert not begun.done()
        after = pool.submit(second)
        return [each.exception() or each.result() for each in (after, begun)]


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("second", ["shrink", "grow"])
def test_a_rank_shrinks_a_communicator_in_one_thread_at_a_time(size, second):
    refused = Barrier(size)

    def on_each_rank(comm):
        if comm.rank == size - 1:  # so that the others wait
            refused.wait(20)
            return sum_of(comm.shrink(timeout=20))

        def again():
            try:
                getattr(comm, second)(timeout=20)
            finally:
                refused.wait(20)

        error, left = in_two_threads(comm, lambda: comm.shrink(timeout=20), again)
        assert re.match(rf"{second}: rank {comm.rank} is in shrink or grow", str(error))
        assert (error.rank, error.collective) == (comm.rank, second)
        return sum_of(left)

    assert threads(on_each_rank, size, timeout=30) == [size] * size


@pytest.mark.parametrize("size", [2, 3, 7])
def test_closing_a_communicator_ends_a_wait_for_survivors(size):
    def on_each_rank(comm):
        if comm.rank == size - 1:
            ended.wait(20)
            return
        end = partial(comm.close) if comm.rank % 2 else partial(comm.abort, "planted")
        _, error = in_two_threads(comm, lambda: comm.shrink(timeout=20), end)
        assert isinstance(error, CommunicatorClosed), error
        ended.wait(20)

    ended = Barrier(size)
    threads(on_each_rank, size, timeout=30)


def test_revoking_ends_a_wait_for_a_group():
    waits = Event()

    def on_each_rank(comm):
        if comm.rank == 0:
            waits.wait(20)
            comm.revoke()
            return
        waits.set()
        with pytest.raises(CommunicatorRevoked):
            comm.group([0, 1])

    threads(on_each_rank, 2, timeout=15)
