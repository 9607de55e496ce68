"""Sequences of messages with random tags, lengths and waits, against a model."""

import random
import threading
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import collalgo
from collalgo import CollalgoError, CollectiveTimeout, spawn, threads
from collalgo.engine.transport import thread

#: Of messages in a slot, in the ring of a pair, and read in the memory of the sender.
LENGTHS = (0, 1, 8, 9, 300, 2048, 2049, 9000)
DTYPES = ("float64", "int8", "complex64")


def drawn_messages(size, seed, count):
    """Messages from rank to rank, to itself too: sender, receiver, tag, array."""
    draw = random.Random(seed)
    for number in range(count):
        length, dtype = draw.choice(LENGTHS), draw.choice(DTYPES)
        array = np.arange(number, number + length).astype(dtype)
        yield draw.randrange(size), draw.randrange(size), draw.randrange(4), array


def strided(array, draw):
    """The same elements, in order or not in order in memory."""
    if draw.random() < 0.8:
        return array.copy()
    wide = np.zeros(2 * len(array), array.dtype)
    wide[::2] = array
    return wide[::2]


def messages_of(rank, drawn):
    """What a rank sends, in order, and receives by sender and tag."""
    sends, receives = [], {}
    for sender, receiver, tag, array in drawn:
        if sender == rank:
            sends.append((receiver, tag, array))
        if receiver == rank:
            receives.setdefault((sender, tag), []).append(array)
    return sends, receives


def in_any_order(comm, seed, count):
    """All sends and receives of this rank, and waits for any of them."""
    draw = random.Random(f"{seed} {comm.rank}")
    sends, receives = messages_of(comm.rank, drawn_messages(comm.size, seed, count))
    calls = [None] * len(sends) + [key for key in receives for _ in receives[key]]
    draw.shuffle(calls)
    sends = iter(sends)  # whose order is that of their receives
    begun = []
    for key in calls:
        if key is None:
            to, tag, sent = next(sends)
            begun.append((comm.isend(strided(sent, draw), to, tag), sent))
        else:
            wanted = receives[key].pop(0)
            message = comm.irecv(strided(np.zeros_like(wanted), draw), *key)
            begun.append((message, wanted))
        if draw.random() < 0.3:
            draw.choice(begun)[0].done()
    draw.shuffle(begun)
    for message, array in begun:
        assert (message.wait() == array).all()
    comm.barrier()


@settings(max_examples=12)
@given(
    size=st.sampled_from([1, 2, 3, 5]),
    seed=st.integers(0, 1 << 30),
    count=st.integers(1, 200),
)
def test_any_sequence_of_messages_arrives_as_it_was_sent(size, seed, count):
    threads(partial(in_any_order, seed=seed, count=count), size, timeout=60)


def many_sequences(comm):
    for seed in range(20):
        in_any_order(comm, seed, 150)


def test_any_sequence_arrives_between_processes():
    spawn(many_sequences, 3, timeout=60)


def test_long_messages_arrive_where_ranks_must_not_read_each_others_memory(monkeypatch):
    """They go through the engine then."""
    make = thread.SharedMemory

    class Unreadable(make):
        def publish_can_fetch(self, process):
            """Allow nothing."""

    monkeypatch.setattr(thread, "SharedMemory", Unreadable)
    threads(partial(in_any_order, seed=5, count=100), 3, timeout=60)


def test_more_long_messages_than_can_be_read_at_a_time_are_received_in_any_order():
    def on_each_rank(comm):
        other = 1 - comm.rank
        sent = [comm.isend(np.full(3000, tag), other, tag) for tag in range(300)]
        for tag in reversed(range(300)):
            assert (comm.recv(np.empty(3000, int), other, tag) == tag).all()
        assert [message.exception() for message in sent] == [None] * 300

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize("count", [1, 5000, 50_000])
def test_a_rank_sends_to_itself(count):
    def on_each_rank(comm):
        got = comm.irecv(np.empty(count), comm.rank, 1)
        comm.send(np.full(count, 2.0), comm.rank, 1)
        assert (got.wait() == 2).all()
        comm.send(np.full(count, 3.0), comm.rank)
        message = comm.irecv(np.empty(count), None)
        assert (message.wait() == 3).all()
        assert message.source == comm.rank

    for size in (1, 3):
        threads(on_each_rank, size, timeout=60)


def test_what_a_sender_takes_back_is_not_read():
    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(Exception, match="to receive it under tag 3"):
                comm.send(np.ones(100_000), 1, tag=3, timeout=0.1)
            comm.barrier()
        else:
            comm.barrier()
            with pytest.raises(Exception, match="rank 0 no longer waits for rank 1"):
                comm.recv(np.zeros(100_000), 0, tag=3)

    threads(on_each_rank, 2, timeout=60)


def test_several_calls_are_waited_for_in_any_order():
    def on_each_rank(comm):
        other = 1 - comm.rank
        assert collalgo.waitall([]) == []
        with pytest.raises(ValueError, match="works is empty"):
            collalgo.waitany([])
        begun = [comm.irecv(np.empty(2), other, tag) for tag in range(4)]
        begun.append(comm.allreduce_async(np.ones(1)))
        begun.pop().wait()
        assert collalgo.testany(begun) is None
        with pytest.raises(TimeoutError, match="none of 4 calls is done after 0 s"):
            collalgo.waitany(begun, 0)
        with pytest.raises(TimeoutError, match="irecv is not done"):
            collalgo.waitall(begun, 0.01)
        comm.barrier()
        for tag in (2, 0, 3, 1):
            comm.send(np.full(2, float(tag)), other, tag)
            assert collalgo.waitany([begun[tag]]) == 0
        assert collalgo.testany(begun) == 0
        assert [each[0] for each in collalgo.waitall(begun)] == [0, 1, 2, 3]

    threads(on_each_rank, 2, timeout=60)


def test_a_probe_tells_of_the_message_that_the_next_receive_takes():
    def on_each_rank(comm):
        if comm.rank == 1:
            for length in (3, 70_000):
                comm.send(np.ones(length, np.float32), 0, 4)
        elif comm.rank == 0:
            for length, source in ((3, None), (70_000, 1)):
                found = comm.probe(source, 4)
                assert found == (1, "float32", length)
                assert comm.iprobe(source, 4) == found
                got = comm.recv(np.empty(found.size, found.dtype), found.source, 4)
                assert (got == 1).all()
        comm.barrier()

    threads(on_each_rank, 3, timeout=60)


def test_a_probe_of_what_nobody_sends_ends_at_its_timeout_or_with_the_peer():
    def on_each_rank(comm):
        if comm.rank == 0:
            assert comm.iprobe(None, 4) is None
            with pytest.raises(
                collalgo.CollectiveTimeout, match=r"0\.05 s .* rank 1 und"
            ):
                comm.probe(1, 4, timeout=0.05)
        comm.barrier()
        if comm.rank == 0:
            with pytest.raises(collalgo.PeerFailed, match="rank 1 is gone"):
                while True:
                    comm.probe(1, 4)

    threads(on_each_rank, 3, timeout=60)


def test_a_callback_is_called_when_the_other_rank_leaves():
    def on_each_rank(comm):
        if comm.rank == 0:
            called = threading.Event()
            message = comm.irecv(np.zeros(1), 1)
            message.add_done_callback(lambda _: called.set())
            assert called.wait(10)
            assert isinstance(message.exception(), collalgo.PeerFailed)

    threads(on_each_rank, 2, timeout=60)


def test_a_long_message_that_is_about_to_be_read_ends_with_its_communicator():
    def on_each_rank(comm):
        part = comm.dup()
        if comm.rank:
            sent = part.isend(np.zeros(50_000), 0)
            comm.barrier()
            sent.exception()
        else:
            comm.barrier()
            received = part.irecv(np.zeros(50_000), 1)
            part.close()
            try:
                received.wait()
            except CollalgoError as error:
                assert "closed" in str(error)
        comm.barrier()
        part.close()

    for _ in range(20):
        threads(on_each_rank, 2, timeout=20)


def test_a_message_that_found_no_room_and_was_given_up_does_not_stop_other_threads():
    def on_each_rank(comm):
        if comm.rank:
            comm.barrier()
            for _ in range(64):
                comm.recv(np.zeros(1), 0)
            time.sleep(0.2)
            comm.send(np.ones(1), 0)
        else:
            for _ in range(64):
                comm.send(np.zeros(1), 1)
            late = comm.isend(np.zeros(50_000), 1, tag=7)
            with pytest.raises(TimeoutError):
                late.wait(0.05)
            with pytest.raises(CollectiveTimeout):
                comm.send(np.zeros(50_000), 1, tag=8, timeout=0.1)
            comm.barrier()
            assert comm.recv(np.zeros(1), 1)[0] == 1
        comm.close()

    threads(on_each_rank, 2, timeout=20)


def test_a_closed_communicator_refuses_messages_of_other_threads():
    def on_each_rank(comm):
        for _ in range(30):
            part, failures = comm.dup(), []

            def send_on(part=part, failures=failures):
                try:
                    for _ in range(40):  # for which there is room
                        part.isend(np.zeros(1), 1 - part.rank)
                except (CollalgoError, ValueError) as error:
                    failures.append(str(error))

            thread_ = threading.Thread(target=send_on)
            thread_.start()
            part.close()
            thread_.join(20)
            assert all("closed" in failure for failure in failures), failures

    threads(on_each_rank, 2, timeout=20)


@pytest.mark.parametrize("name", ["waitall", "waitany", "testany"])
@pytest.mark.parametrize(
    ("works", "complaint"),
    [
        (None, "works is None; pass a list of calls"),
        (3, "works is 3"),
        ([1], "works.0."),
    ],
)
def test_what_is_no_list_of_calls_is_refused(name, works, complaint):
    with pytest.raises(TypeError, match=f"{name}: {complaint}"):
        getattr(collalgo, name)(works)
