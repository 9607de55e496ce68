"""Messages between two ranks: in order, in rings, by tags, and their errors."""

import ast
import os
import signal
import threading
import time
from functools import partial
from itertools import product

import numpy as np
import pytest

import collalgo
from collalgo import spawn, threads
from collalgo._kernels.comm.point_to_point import outbox
from tests.conftest import at_leisure

pytestmark = pytest.mark.parallel

STARTED = at_leisure(
    product([threads, spawn], [2, 3, 5]), {*product([threads], [2, 3, 5]), (spawn, 3)}
)


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


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def reversed_tags(comm, count):
    """All messages are sent before the first is received, the last of them first."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.send(np.ones(1), right)
    comm.recv(np.ones(1), left)
    comm.barrier()
    before = descriptors()
    lengths = [(1, 40, 3000, 9000)[number % 4] for number in range(count)]
    sent = [
        comm.isend(np.full(length, tag), right, tag)
        for tag, length in enumerate(lengths)
    ]
    for tag, length in reversed([*enumerate(lengths)]):
        assert (comm.recv(np.empty(length, int), left, tag) == tag).all()
    for message in sent:
        message.wait()
    comm.barrier()
    return descriptors() - before


@pytest.mark.parametrize(("start", "size"), STARTED)
def test_tags_of_any_order_share_one_channel(start, size):
    assert max(start(partial(reversed_tags, count=200), size, timeout=60)) < 10


@pytest.mark.slow
@pytest.mark.parametrize("start", [threads, spawn])
def test_thousands_of_tags_take_no_descriptors(start):
    assert max(start(partial(reversed_tags, count=3000), 2, timeout=300)) < 10


@pytest.mark.parametrize("count", [1, 100, 5000, 300_000])
def test_messages_of_one_tag_are_received_in_their_order(count):
    def on_each_rank(comm):
        if comm.rank:
            sent = [comm.isend(np.full(count, n), 0, n % 3) for n in range(30)]
            for message in sent:
                message.wait()
            return
        for tag in (2, 0, 1):
            source = None if tag else 1
            for number in range(tag, 30, 3):
                assert (comm.recv(np.empty(count, int), source, tag) == number).all()

    threads(on_each_rank, 2, timeout=60)


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


def test_short_messages_that_nobody_takes_are_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(outbox, "KEPT_BYTES", 20_000)

    def on_each_rank(comm):
        if comm.rank:
            sent = [comm.isend(np.full(100, n), 0, n % 2) for n in range(200)]
            comm.send(np.zeros(1), 0, tag=5)
            for message in sent:
                message.wait()
            return comm._mailbox.unexpected_bytes(0)
        comm.recv(np.zeros(1), 1, tag=5)
        assert 0 < comm._mailbox.unexpected_bytes(1) <= 20_000
        for number in (*range(1, 200, 2), *range(0, 200, 2)):
            assert comm.recv(np.empty(100, int), 1, number % 2)[0] == number
        return comm._mailbox.unexpected_bytes(1)

    assert threads(on_each_rank, 2, timeout=60) == [0, 0]


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
