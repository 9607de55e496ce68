"""Messages that cannot be, that nobody sends, or of ranks that die."""

import ast
import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import spawn, threads


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


def test_a_receive_that_was_given_up_takes_no_message():
    def on_each_rank(comm):
        if comm.rank:
            comm.barrier()
            comm.send(np.ones(3), 0)
            comm.send(np.full(3, 2.0), 0)
            return
        for source in (1, None):
            with pytest.raises(collalgo.CollectiveTimeout, match=r"0\.1 s"):
                comm.recv(np.zeros(3), source, timeout=0.1)
        comm.barrier()
        assert comm.recv(np.zeros(3), 1)[0] == 1
        assert comm.recv(np.zeros(3), None)[0] == 2

    threads(on_each_rank, 2, timeout=60)


def test_a_message_that_nobody_sends_is_given_up():
    done = threading.Barrier(3, timeout=30)

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(
                collalgo.CollectiveTimeout, match=r"0\.3 s .* any rank under tag 5"
            ) as caught:
                comm.recv(np.ones(1), None, tag=5, timeout=0.3)
            assert caught.value.missing == (1, 2)
        done.wait()

    threads(on_each_rank, 3, timeout=60)


def last_words(comm, path):
    """Rank 2 dies; the others wait for messages, and tell what they are told."""
    if comm.rank == 2:
        comm.recv(np.zeros(1), 0)
        os.kill(os.getpid(), signal.SIGKILL)
    if comm.rank == 0:
        comm.send(np.zeros(1), 2)
    began = time.monotonic()
    sources = {0: 2, 1: 2, 3: None}
    with pytest.raises(collalgo.PeerFailed) as caught:
        comm.recv(np.zeros(1), sources[comm.rank])
    told = str(caught.value), caught.value.missing, time.monotonic() - began
    (path / str(comm.rank)).write_text(repr(told))


#: Calls of rank 0 that wait for a message of rank 1, or for its receive.
WAITS = {
    "recv": lambda comm: comm.recv(np.ones(1), 1, timeout=0.05),
    "recv from any": lambda comm: comm.recv(np.ones(1), None, timeout=0.05),
    "send": lambda comm: comm.send(np.ones(99999), 1, timeout=0.05),
    "probe": lambda comm: comm.probe(1, timeout=0.05),
    "recv_object": lambda comm: comm.recv_object(1, timeout=0.05),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_the_error_names_the_collective_that_the_other_rank_is_in(wait):
    says = "but rank 1 is in allreduce #1, which rank 0 has not called"
    has_met = threading.Event()

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(collalgo.CollectiveTimeout) as caught:
                wait(comm)
            assert "allreduce" not in str(caught.value)  # rank 1 is in no call yet
            has_met.set()
            while says not in str(caught.value):  # until rank 1 is in it
                with pytest.raises(collalgo.CollectiveTimeout) as caught:
                    wait(comm)
        has_met.wait(30)
        assert comm.allreduce(np.ones(1))[0] == 2  # which has not failed

    threads(on_each_rank, 2, timeout=60)


def test_who_waits_for_a_message_is_told_who_has_died(tmp_path):
    """Whether or not the two have met before."""
    with pytest.raises(collalgo.CollalgoError, match="rank 2"):
        spawn(partial(last_words, path=tmp_path), 4, timeout=60)
    for rank in (0, 1, 3):
        told, missing, seconds = ast.literal_eval((tmp_path / str(rank)).read_text())
        assert "rank 2" in told
        assert missing == (2,)
        assert seconds < 10


def test_errors_name_the_ranks_of_the_communicator():
    """Not those of the small world of the two."""

    def on_each_rank(comm):
        if comm.rank == 3:
            with pytest.raises(
                collalgo.CollectiveTimeout, match=r"rank 3 waited 0\.3 s for rank 2"
            ) as caught:
                comm.recv(np.zeros(1), 2, timeout=0.3)
            assert caught.value.missing == (2,)
            comm.send(np.ones(3), 2, tag=1)
            with pytest.raises(
                collalgo.MismatchError,
                match=r"message #\d+: rank [23] .* but rank [23] ",
            ) as caught:
                comm.recv(np.ones(4), 2, tag=2)
            assert caught.value.rank == 3
        elif comm.rank == 2:
            comm.recv(np.ones(3), 3, tag=1)
            with pytest.raises(collalgo.MismatchError):
                while True:
                    comm.send(np.ones(5), 3, tag=2)

    threads(on_each_rank, 4, timeout=60)


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_the_error_in_a_group_names_the_ranks_of_the_world(wait):
    told = "(ranks of the group [3, 1] of the world)"

    def on_each_rank(comm):
        group = comm.group([3, 1]) if comm.rank % 2 else None
        if comm.rank == 3:
            for _ in range(2):
                with pytest.raises(collalgo.CollectiveTimeout) as caught:
                    wait(group)
                assert str(caught.value).count(told) == 1, caught.value
            with pytest.raises(collalgo.CollectiveTimeout) as caught:
                comm.recv(np.zeros(1), 0, timeout=0.05)
            assert "of the world" not in str(caught.value)
        comm.barrier()

    threads(on_each_rank, 4, timeout=60)


def test_a_mismatch_and_a_departure_in_a_group_name_the_ranks_of_the_world():
    told = r"\(ranks of the group \[2, 1\] of the world\)$"

    def on_each_rank(comm):
        if not comm.rank:
            return
        group = comm.group([2, 1])
        with pytest.raises(collalgo.MismatchError, match=told):
            while True:
                if group.rank == 0:
                    group.send(np.ones(3), 1)
                else:
                    group.recv(np.ones(4), 0)
        if group.rank:
            group.close()
            return
        with pytest.raises(collalgo.PeerFailed, match=told):
            group.recv(np.ones(4), 1, tag=9)

    threads(on_each_rank, 3, timeout=60)


def test_a_closed_communicator_says_so():
    def on_each_rank(comm):
        other, x = 1 - comm.rank, np.zeros(1)
        comm.isend(x, other, tag=1).wait()
        comm.recv(x, other, tag=1)
        comm.barrier()
        comm.close()
        for tag in (1, 2):  # the two have met under one of them
            for call in (comm.send, comm.isend, comm.recv, comm.irecv):
                with pytest.raises(
                    collalgo.CommunicatorClosed,
                    match=f"^{call.__name__}: this communicator is closed",
                ):
                    call(x, other, tag)
            for call in (comm.recv, comm.irecv):
                with pytest.raises(collalgo.CommunicatorClosed, match=call.__name__):
                    call(x, None, tag)

    threads(on_each_rank, 2, timeout=60)


def test_ranks_that_cannot_be():
    def on_each_rank(comm):
        for peer in (comm.size, -1):
            far = f"send: to is {peer}, which is out of range; .* from 0 to 1"
            with pytest.raises(ValueError, match=far):
                comm.send(np.ones(3), peer)

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


def send_both_kinds(comm):
    comm.send(np.array([1 << 50]), 1)  # which is no length of a frame
    comm.barrier()
    with pytest.raises(collalgo.MismatchError, match="rank 0 sent an object"):
        while True:  # who has sent is told when it sends again
            comm.send_object("text", 1, 1)


def receive_the_other_kind(comm):
    def refused(match, call, *args, **kwargs):
        with pytest.raises(Exception, match=match):
            call(*args, **kwargs)

    refused(r"recv_object: source is 7", comm.recv_object, 7)
    refused(r"recv_object: tag is 'x'", comm.recv_object, 0, "x")
    refused(r"recv_object: rank 1 waited", comm.recv_object, 0, 5, timeout=0.01)
    refused(r"recv_object: .* 1 elements of int64, not an", comm.recv_object, 0)
    assert comm.recv(np.zeros(1, np.int64), 0)[0] == 1 << 50  # it is still there
    comm.barrier()
    refused("sent an object .* receive it by recv_object", comm.recv, np.ones(3), 0, 1)


def test_errors_of_messages_of_objects_name_the_call_of_the_user():
    roles = send_both_kinds, receive_the_other_kind
    threads(lambda comm: roles[comm.rank](comm), 2, timeout=60)
