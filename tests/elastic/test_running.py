"""A training function goes on when members fail, leave and come, with the same bits.

Members are threads of this process; a member that fails is one whose communicator is
aborted and whose lease ends. What needs processes is in test_launched.py.
"""

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Barrier, Event

import numpy as np
import pytest

import collalgo
from collalgo import CollalgoError, PeerFailed, elastic, threads
from collalgo.elastic import State, running
from collalgo.elastic.member_words import names_of_ranks
from collalgo.errors import RendezvousClosed
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline

STEPS = 12


class Died(Exception):
    """A planted death."""


def new_state():
    return State(weights=np.full(5, 0.1), sampler=elastic.Sampler(40), step=0)


def gradient(state, batch, k):
    return np.sin(state.weights * (1 + batch[k::8].sum()))


def step(comm, state):
    batch = state.sampler.take(8)
    state.weights += elastic.sum_shards(comm, 8, partial(gradient, state, batch))
    state.step += 1


def train_alone():
    state = new_state()

    @elastic.run
    def train(comm, state):
        while state.step < STEPS:
            step(comm, state)
            state.commit()

    threads(lambda comm: train(state, comm=comm), 1)
    return state.weights.tobytes()


@elastic.run
def train_until(comm, state, death):
    """Train, and fail at a place of a step: before or after it, or after its commit."""

    def die(place):
        if death == (state.step, place):
            comm.abort("planted")
            raise Died

    assert collalgo.init() is comm
    while state.step < STEPS:
        die(0)
        before = state.step
        step(comm, state)
        state.step = before
        die(1)
        state.step = before + 1
        state.commit()
        die(2)
    return comm.size


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_survivors_train_the_same_weights(size, seed):
    """Members fail at random places of random steps, as long as one is left."""
    rng = random.Random(f"{size} {seed}")
    deaths = {rank: (rng.randrange(STEPS), rng.randrange(3)) for rank in range(1, size)}

    def on_each_rank(comm):
        state = new_state()
        try:
            left = train_until(state, deaths.get(comm.rank), comm=comm)
        except Died:
            return None
        assert collalgo.init() is comm
        return left, state.weights.tobytes(), state.revision

    found = threads(on_each_rank, size, timeout=DEADLINE)
    alive = [each for each in found if each is not None]
    assert alive[0][1] == train_alone()
    assert {each[1:] for each in alive} == {alive[0][1:]}
    assert alive[0][2] == STEPS


def test_other_errors_are_those_of_the_user():
    @elastic.run
    def train(comm, state):
        if comm.rank == 1:
            raise KeyError("planted")
        comm.barrier()

    with pytest.raises(KeyError, match="planted"):
        threads(lambda comm: train(State(), comm=comm), 3, timeout=DEADLINE)


# ---- members that meet


def sum_of(comm):
    return int(comm.allreduce(np.array([1]))[0])


def grown(comm):
    """The communicator with the member that waits to join, once it does."""
    until(lambda: elastic.pending(comm) == 1)
    with comm:
        return comm.grow(DEADLINE)


def shrink_after_a_failure(comm):
    with pytest.raises(PeerFailed):
        while True:
            comm.barrier(timeout=DEADLINE)
    with comm:
        assert sum_of(comm.shrink(DEADLINE)) == 2


def test_communicators_shrink_and_grow(meet):
    late, checked = Event(), Barrier(3)

    def member(number):
        if number == 2:
            assert late.wait(DEADLINE)
        rendezvous = meet(f"n{number}", least=2)
        comm = elastic.connect(rendezvous, DEADLINE)
        assert elastic.pending(comm) == 0
        if number < 2:
            assert sum_of(comm) == 2
            late.set()
            comm = grown(comm)
        check_come(number, comm)
        checked.wait(DEADLINE)  # a rank may still be in a call that another has left
        if number:
            return shrink_after_a_failure(comm)
        comm.abort("planted")  # as its process would
        return rendezvous.shutdown()

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(member, number) for number in range(3)]:
            each.result(60)


def test_a_world_without_a_place_for_newcomers_cannot_grow():
    def on_each_rank(comm):
        assert elastic.pending(comm) == 0
        with pytest.raises(CollalgoError, match="start the job by collalgo run --min"):
            comm.grow()
        assert sum_of(comm) == 2

    threads(on_each_rank, 2)


@elastic.run
def train_as_members_change(comm, state, me, come, seen):
    """Train, note the sizes at each step, die in step 3, let another come in step 6."""
    while state.step < STEPS:
        seen[state.step].add(comm.size)
        if me == 0 and state.step == 3:
            comm.abort("planted")
            raise Died
        if state.step == 6:
            come.set()
            until(lambda: elastic.pending(comm) == 1 or comm.size == 3)
        step(comm, state)
        state.commit()


def test_members_die_and_come_and_the_weights_are_the_same(meet, caplog):
    """One dies in a step, one comes at a commit, without any step lost or repeated."""
    come, seen = Event(), defaultdict(set)

    def member(number):
        if number == 3:
            assert come.wait(DEADLINE)
        rendezvous, state = meet(f"n{number}"), new_state()
        with suppress(Died):
            comm = elastic.connect(rendezvous, DEADLINE)
            train_as_members_change(state, number, come, seen, comm=comm)
            return state.weights.tobytes(), state.revision
        return rendezvous.shutdown()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(member, range(4), timeout=60))
    assert found == [None, *[(train_alone(), STEPS)] * 3]
    assert (seen[2], seen[4], seen[STEPS - 1]) == ({3}, {2}, {3})
    joined = [text for text in caplog.messages if "joined" in text]
    assert joined == ["n3 has joined; 3 members continue"]


def check_come(number, comm):
    """Check who has come to a communicator of three; the last is its last rank."""
    assert (comm.rank == 2) == (number == 2)
    assert sum_of(comm) == 3
    comm.barrier()


@elastic.run
def train_and_close(comm, state, rendezvous, dies):
    """Train, while rank 0 closes the job, and rank 1 dies if it is to."""
    while state.step < STEPS:
        if comm.rank == 0 and state.step == 2:
            rendezvous.close("planted")
            until(lambda: rendezvous.change() is not None)
        if dies and comm.rank == 1 and state.step == 4:
            raise Died
        step(comm, state)
        state.commit()
    return state.step


def test_a_job_that_is_closed_goes_on_to_its_end_but_not_without_a_member(meet):
    def member(name, dies):
        rendezvous = meet(name, least=2, most=2)
        try:
            comm = elastic.connect(rendezvous, DEADLINE)
            return train_and_close(new_state(), rendezvous, dies, comm=comm)
        except (Died, RendezvousClosed) as error:
            rendezvous.shutdown()
            return type(error)

    for dies in (False, True):
        with ThreadPoolExecutor(2) as pool:
            found = [pool.submit(member, name, dies) for name in "ab"]
            ends = {each.result(60) for each in found}
        assert ends == ({RendezvousClosed, Died} if dies else {STEPS})
        meet.next()


def test_a_second_function_is_refused_within_the_first_and_after_it(meet, monkeypatch):
    """It would wait for a member of the same name, or end the job of the first."""
    monkeypatch.setattr(running, "rendezvous_of_launcher", lambda: meet("n0", most=1))
    monkeypatch.setattr(running, "_IS_MEMBER", Event())

    @elastic.run
    def inner(comm, state):
        return sum_of(comm)

    @elastic.run
    def outer(comm, state):
        for given in (None, comm):
            with pytest.raises(CollalgoError, match="in the job of another"):
                inner(State(), comm=given)
        with comm.dup() as group:
            return inner(State(), comm=group)

    assert outer(State()) == 1
    with pytest.raises(CollalgoError, match="is or was in the job of another"):
        inner(State())


def test_members_that_wait_in_a_group_go_on_with_the_others():
    """One waits in a group, whose members all live, for one that has left it."""

    @elastic.run
    def train(comm, state):
        if comm.size == 2:
            return float(comm.allreduce(np.ones(1))[0])
        part = comm.split(comm.rank == 2)
        if comm.rank == 2:
            comm.abort("planted")
            raise Died
        if comm.rank == 0:
            comm.barrier()
        return part.barrier()

    def on_each_rank(comm):
        try:
            return train(State(step=0), comm=comm)
        except Died:
            return None

    assert threads(on_each_rank, 3, timeout=20) == [2.0, 2.0, None]


def test_a_failure_lists_the_members_by_rank_unless_their_names_say_it():
    for size in (0, 1, 2, 17, 33):
        assert names_of_ranks([f"rank {rank}" for rank in range(size)]) == ""
    assert names_of_ranks(["rank 0", "rank 2"]).endswith("are 0: rank 0, 1: rank 2)")
    text = names_of_ranks([f"host.{rank}" for rank in range(33)])
    assert "15: host.15 and 17 more" in text
