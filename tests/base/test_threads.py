"""A thread that the system refuses is one sentence, and calls lose nothing by it."""

from threading import Thread

import numpy as np
import pytest

import collalgo
from collalgo.base import finalizers
from collalgo.base.threads import ThreadRefused
from collalgo.bootstrap.store.pending import Posts
from collalgo.cost import calibration
from collalgo.cost.host_profile import USUAL, calibrate

pytestmark = pytest.mark.deadline


@pytest.fixture
def refused(monkeypatch):
    """A count of threads that the system still allows."""
    allowed, start = [0], Thread.start

    def limited(self):
        allowed[0] -= 1
        if allowed[0] < 0:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(Thread, "start", limited)
    return allowed


@pytest.mark.parametrize("number", [0, 1])
def test_a_host_is_not_measured_without_threads(refused, monkeypatch, tmp_path, number):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    refused[0] = number
    assert calibrate(trials=1).latency == USUAL["latency"][0]
    assert not list(tmp_path.iterdir())
    refused[0] = number
    with pytest.raises(ThreadRefused, match=r"may have .* threads \(ulimit -u\)"):
        calibration.round_trips(1, 1)


def test_a_thread_that_was_refused_is_started_later(refused):
    done, posts = [], Posts()
    for begin in (posts.put, finalizers._Helper().start):
        refused[0] = 0
        arguments = [lambda: done.append(1)] if begin == posts.put else []
        for _ in range(2):
            with pytest.raises(ThreadRefused, match="refuses the thread"):
                begin(*arguments)
        refused[0] = 1
        begin(*arguments)
    posts.close()
    assert done == [1]


def test_calls_that_no_thread_can_run_are_not_begun(refused):
    refused[0] = 1

    def on_the_rank(comm):
        for call in (comm.allreduce_async, comm.persistent_allreduce(np.ones(2)).start):
            with pytest.raises(ThreadRefused, match="the thread 'collalgo'"):
                call(*([np.ones(2)] if call == comm.allreduce_async else []))
        with pytest.raises(ThreadRefused, match="'collalgo messages'"):
            comm.irecv(np.ones(2), None)
        return comm.allreduce(np.ones(2))[0]

    assert collalgo.threads(on_the_rank, 1) == [1.0]
