"""Sequences of messages with random tags, lengths, orders and waits, against a model."""

import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collalgo import spawn, threads
from collalgo.engine.transport import thread

pytestmark = pytest.mark.parallel

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


def in_any_order(comm, seed, count):
    """All sends and receives of this rank, of which any may be waited for at any time."""
    draw = random.Random(f"{seed} {comm.rank}")
    sends, receives = [], {}
    for sender, receiver, tag, array in drawn_messages(comm.size, seed, count):
        if sender == comm.rank:
            sends.append((receiver, tag, array))
        if receiver == comm.rank:
            receives.setdefault((sender, tag), []).append(array)
    calls = [*sends, *((key, None, None) for key in receives for _ in receives[key])]
    draw.shuffle(calls)
    sends = iter(sends)  # whose order is that of their receives
    begun = []
    for peer, _, array in calls:
        if array is None:
            wanted = receives[peer].pop(0)
            message = comm.irecv(strided(np.zeros_like(wanted), draw), *peer)
            begun.append((message, wanted))
        else:
            to, tag, sent = next(sends)
            begun.append((comm.isend(strided(sent, draw), to, tag), sent))
        if draw.random() < 0.3:
            draw.choice(begun)[0].done()
    draw.shuffle(begun)
    for message, array in begun:
        assert (message.wait() == array).all()
    comm.barrier()


@settings(max_examples=12, deadline=None)
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
    """They go through the engine then; see :mod:`collalgo.comm.point_to_point.channel`."""
    make = thread.SharedMemory

    class Unreadable(make):
        def allow_fetching(self, processes):
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
