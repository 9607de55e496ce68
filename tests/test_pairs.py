"""Messages between two ranks: in order, in rings, by tags, and their errors."""

import threading

import numpy as np
import pytest

import collalgo
from collalgo import spawn, threads

pytestmark = pytest.mark.parallel


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


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_ring_of_messages(size):
    threads(around, size, timeout=60)
    spawn(around, size, timeout=60)


def test_tags_do_not_wait_for_each_other():
    def on_each_rank(comm):
        if comm.rank == 0:
            messages = [comm.isend(np.array([tag]), 1, tag) for tag in range(3)]
            for message in messages:
                message.wait()
        else:
            for tag in (2, 0, 1):
                assert comm.recv(np.zeros(1, int), 0, tag)[0] == tag

    threads(on_each_rank, 2, timeout=60)


def test_small_messages_are_sent_before_they_are_received():
    def on_each_rank(comm):
        other = 1 - comm.rank
        for number in range(100):
            comm.send(np.array([number]), other)
            assert comm.recv(np.zeros(1, int), other)[0] == number

    threads(on_each_rank, 2, timeout=60)


def test_what_differs_is_told_to_both():
    def on_each_rank(comm):
        with pytest.raises(collalgo.MismatchError, match="3 elements"):
            while True:  # who has sent is told when it sends again
                if comm.rank == 0:
                    comm.send(np.ones(3), 1)
                else:
                    comm.recv(np.ones(4), 0)
        assert comm.allreduce(np.ones(1))[0] == 2  # which is none of its business

    threads(on_each_rank, 2, timeout=60)


def test_ranks_that_cannot_be():
    def on_each_rank(comm):
        for peer in (comm.rank, comm.size, -1):
            with pytest.raises(ValueError, match=f"send: rank {peer} must be another"):
                comm.send(np.ones(3), peer)

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


def test_a_receive_that_nobody_answers_is_given_up():
    given_up = threading.Barrier(2, timeout=30)

    def on_each_rank(comm):
        comm.send(np.ones(1), 1 - comm.rank)
        comm.recv(np.ones(1), 1 - comm.rank)
        comm.barrier()
        if comm.rank == 0:
            with pytest.raises(collalgo.CollectiveTimeout):
                comm.recv(np.ones(1), 1, timeout=0.3)
        given_up.wait()

    threads(on_each_rank, 2, timeout=60)
