"""Messages between two ranks: who may send what, in which order."""

import threading
import time
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import spawn, threads
from tests.support.leisure import at_leisure
from tests.support.starting import STARTED


def around(comm):
    """Everybody sends to the right before receiving from the left, in every way."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent = comm.isend(np.full(100_000, comm.rank), right)
    got = comm.irecv(np.empty(100_000, int), left)
    assert (got.wait() == left).all()
    assert sent.exception() is None
    messages = [comm.isend(np.full(i, i), right) for i in range(30)]
    for i in range(30):
        assert (comm.recv(np.zeros(i, int), left) == i).all()
    for message in messages:
        message.result()
    if comm.rank % 2:
        comm.send(np.ones(5), left)
    elif comm.size % 2 == 0:
        assert (comm.recv(np.zeros(5), right) == 1).all()
    comm.barrier()


@pytest.mark.parametrize(("start", "size"), STARTED)
def test_a_ring_of_messages(start, size):
    start(around, size, timeout=60)


def test_small_messages_are_sent_before_they_are_received():
    def on_each_rank(comm):
        other = 1 - comm.rank
        for number in range(100):
            comm.send(np.array([number]), other)
            assert comm.recv(np.zeros(1, int), other)[0] == number

    threads(on_each_rank, 2, timeout=60)


def from_anybody(comm):
    """Each rank sends to rank 0 as many messages as its number says."""
    if comm.rank:
        for number in range(comm.rank):
            comm.send(np.array([comm.rank, number]), 0, tag=4)
        comm.barrier()
        return
    numbers = dict.fromkeys(range(1, comm.size), 0)
    for _ in range(sum(numbers)):
        message = comm.irecv(np.zeros(2, int), None, tag=4)
        rank, number = message.wait()
        assert message.source == rank
        assert number == numbers[rank]
        numbers[rank] += 1
    assert all(numbers[rank] == rank for rank in numbers)
    comm.barrier()


@pytest.mark.parametrize(("start", "size"), STARTED)
def test_messages_from_whoever_sends_first(start, size):
    start(from_anybody, size, timeout=60)


def leaving(comm):
    """Rank 1 sends and leaves; rank 2 leaves as it is, and rank 3 sends late."""
    if comm.rank == 0:
        assert comm.recv(np.zeros(1, int), None)[0] == 1
        comm.send(np.ones(1), 3, tag=1)
        assert comm.recv(np.zeros(1, int), None)[0] == 3
        comm.send(np.ones(1), 3, tag=1)
        with pytest.raises(collalgo.PeerFailed, match="all others have closed"):
            comm.recv(np.zeros(1, int), None)
    elif comm.rank == 1:
        comm.send(np.array([1]), 0)
    elif comm.rank == 3:
        comm.recv(np.zeros(1), 0, tag=1)
        time.sleep(0.5)  # while the others leave
        comm.send(np.array([3]), 0)
        comm.recv(np.zeros(1), 0, tag=1)
    comm.close()


def test_a_rank_that_has_left_does_not_hide_the_others():
    spawn(leaving, 4, timeout=60)


def test_an_empty_message_may_be_from_anybody():
    def on_each_rank(comm):
        if comm.rank == 0:
            sources = {comm.irecv(np.zeros(0), None) for _ in range(1, comm.size)}
            for message in sources:
                message.wait()
            assert {each.source for each in sources} == {*range(1, comm.size)}
        else:
            comm.send(np.zeros(0), 0)

    threads(on_each_rank, 3, timeout=60)


def senders_first(comm):
    """Everybody sends a short message before anybody receives or makes another call."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.send(np.array([comm.rank]), right)
    comm.isend(np.array([-comm.rank]), right, tag=1).wait()
    comm.barrier()
    assert comm.recv(np.empty(1, int), left, tag=1)[0] == -left
    assert comm.recv(np.empty(1, int), left)[0] == left
    comm.barrier()
    if comm.rank == 0:
        comm.send(np.array([5]), comm.size // 2, tag=2)  # and leaves
    elif comm.rank == comm.size // 2:
        time.sleep(0.3)
        assert comm.recv(np.empty(1, int), 0, tag=2)[0] == 5


@pytest.mark.parametrize(("start", "size"), STARTED)
def test_short_messages_do_not_wait_for_their_receivers_to_call(start, size):
    start(senders_first, size, timeout=60)


@pytest.mark.parametrize("size", at_leisure((2, 3, 5), (2, 3)))
def test_nobody_waits_long_for_messages_that_nobody_receives(size):
    threads(never_received, size, timeout=100)


def never_received(comm):
    for number in range(20):
        comm.send(np.full(90, number), (comm.rank + 1) % comm.size, tag=number)
    comm.barrier()


def test_receives_of_any_kind_are_served_in_the_order_of_their_calls():
    def on_each_rank(comm):
        if comm.rank:
            comm.barrier()
            for number in range(4):
                comm.send(np.array([number]), 0)
            return
        posted = [comm.irecv(np.empty(1, int), source) for source in (None, 1, None, 1)]
        comm.barrier()
        assert [message.wait()[0] for message in posted] == [0, 1, 2, 3]
        assert [message.source for message in posted] == [1] * 4

    threads(on_each_rank, 2, timeout=60)


def everybody_to_everybody(comm, count):
    """All sends begin, and end while their ranks wait for others."""
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    sent = [comm.isend(np.full(count, comm.rank), to, 7) for to in others]
    for source in reversed(others):
        assert (comm.recv(np.empty(count, int), source, 7) == source).all()
    for message in sent:
        message.wait()


@pytest.mark.parametrize("count", [3, 100_000])
@pytest.mark.parametrize("size", at_leisure((2, 3, 5, 7, 8, 12, 16), (2, 3, 7)))
def test_a_rank_that_waits_for_one_serves_all(size, count):
    threads(partial(everybody_to_everybody, count=count), size, timeout=60)


def test_long_messages_of_two_that_send_first_pass_each_other():
    def on_each_rank(comm):
        other = 1 - comm.rank
        got = comm.irecv(np.empty(300_000), other)
        comm.send(np.full(300_000, float(comm.rank)), other)
        assert (got.wait() == other).all()

    threads(on_each_rank, 2, timeout=60)


def test_a_message_in_the_background_is_polled_by_a_wait_of_zero():
    def on_each_rank(comm):
        message = comm.irecv(np.zeros(3), 1 - comm.rank)
        with pytest.raises(TimeoutError, match="irecv is not done after 0 s"):
            message.wait(0)
        comm.barrier()
        comm.send(np.ones(3), 1 - comm.rank)
        while not message.done():
            time.sleep(0.001)
        assert message.wait(0)[0] == 1
        assert message.exception(0) is None

    threads(on_each_rank, 2, timeout=60)


def test_who_is_told_when_a_message_has_come():
    def on_each_rank(comm):
        told = threading.Event()
        other = 1 - comm.rank
        message = comm.irecv(np.zeros(3), other)
        message.add_done_callback(lambda _: told.set())
        assert not message.done()
        comm.barrier()
        sent = comm.isend(np.ones(3), other)
        assert told.wait(10)
        sent.wait()
        assert message.done()
        assert (message.wait() == 1).all()

    threads(on_each_rank, 2, timeout=60)
