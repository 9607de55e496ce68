"""The survivors of an epoch connect in what they have, if no other joins them."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from unittest.mock import Mock

import pytest

from collalgo import elastic
from collalgo.elastic import held_contexts
from collalgo.elastic.held_contexts import CALM_SECONDS, MOST_HELD, HeldContexts
from collalgo.errors import PeerFailed
from tests.elastic.test_running import sum_of
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline

MEMBERS = 4


def memory_of(comm):
    return comm._runner.context.memory


def die(comm, rendezvous, reason):
    comm.abort(reason)  # as its process would
    rendezvous.shutdown()


def grown(comm, size):
    """The communicator of some members, once all of them have come."""
    while comm.size < size:
        until(partial(elastic.pending, comm))
        with comm:
            comm = comm.grow(DEADLINE)
    return comm


def grow_after_a_failure(comm):
    with pytest.raises(PeerFailed):
        while True:
            comm.barrier(timeout=DEADLINE)
    with comm:
        return comm.grow(DEADLINE)


def survive(meet, number, together):
    """A member, of which 3 and then 0 die; the others keep their memory."""
    rendezvous = meet(f"n{number}", most=MEMBERS)
    comm = grown(elastic.connect(rendezvous, DEADLINE), MEMBERS)
    before = memory_of(comm)
    for victim, barrier in together.items():
        barrier.wait(DEADLINE)  # a rank may still be in a call
        if number == victim:
            return die(comm, rendezvous, "planted")
        comm = grow_after_a_failure(comm)
        assert sum_of(comm) == comm.size == 3 - (victim == 0)
        assert memory_of(comm) is before
    return comm


def test_survivors_keep_their_memory_until_a_process_joins_them(meet):
    together, joined = {3: Barrier(4), 0: Barrier(3)}, Barrier(3)

    def member(number):
        if (comm := survive(meet, number, together)) is None:
            return
        before = memory_of(comm)
        joined.wait(DEADLINE)
        with grown(comm, 3) as comm:
            assert sum_of(comm) == comm.size == 3
            assert memory_of(comm) is not before

    def come():
        joined.wait(DEADLINE)
        with elastic.connect(meet("late", most=MEMBERS), DEADLINE) as comm:
            assert sum_of(comm) == comm.size == 3

    with ThreadPoolExecutor(MEMBERS + 1) as pool:
        members = [pool.submit(member, number) for number in range(MEMBERS)]
        for each in [*members, pool.submit(come)]:
            each.result(60)


def test_a_survivor_that_dies_before_it_has_connected_is_not_waited_for(meet):
    """All have told that they connect again in the world that they have."""
    is_complete = Barrier(3)

    def member(number):
        rendezvous = meet(f"n{number}")
        comm = grown(elastic.connect(rendezvous, DEADLINE), 3)
        is_complete.wait(DEADLINE)
        if number == 2:
            return die(comm, rendezvous, "planted")
        if number == 1:
            fails = Mock(side_effect=RuntimeError("planted, too"))
            rendezvous_of_world = Mock(connect=fails, **{"lost.return_value": ()})
            comm._runner.context.rendezvous = rendezvous_of_world
            with pytest.raises(RuntimeError, match="too"):
                grow_after_a_failure(comm)
            return rendezvous.shutdown()
        comm = grow_after_a_failure(comm)
        assert sum_of(comm) == comm.size == 1
        return comm.close()

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(member, number) for number in range(3)]:
            each.result(30)


def held(end_job, *, is_closed):
    return Mock(end_job=end_job, **{"transport.closed": is_closed})


@pytest.fixture
def clock(monkeypatch):
    found = Mock(return_value=100.0)
    monkeypatch.setattr(held_contexts, "monotonic", found)
    return found


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_job_ends_once_no_world_of_its_processes_is_open(clock, is_shared):
    """A world of survivors has the job of the world before."""
    contexts, end, other = HeldContexts(), Mock(), Mock()
    for closed in (held(end, is_closed=True), held(None, is_closed=True)):
        contexts.add(closed)
    contexts.add(held(end if is_shared else other, is_closed=False))
    contexts.release_if_calm()
    assert not end.called
    clock.return_value += CALM_SECONDS
    for _ in range(2):
        contexts.release_if_calm()
        assert end.call_count == (not is_shared)
        assert not other.called


def test_many_epochs_in_succession_hold_no_more_than_some_jobs(clock):
    contexts, ends = HeldContexts(), []
    for _ in range(3 * MOST_HELD):
        ends.append(Mock())
        contexts.add(context := held(ends[-1], is_closed=False))
        context.transport.closed = True
        assert sum(not end.called for end in ends) <= MOST_HELD
