"""Messages of many tags, and messages that nobody takes, are kept and found."""

import os
from functools import partial

import numpy as np
import pytest

from collalgo import spawn, threads
from collalgo._kernels.comm.point_to_point import outbox
from tests.support.starting import STARTED


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
