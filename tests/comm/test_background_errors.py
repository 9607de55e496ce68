"""Errors, deaths and signals are told by calls in the background."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import collalgo
from collalgo import (
    CollalgoError,
    CommunicatorClosed,
    PeerFailed,
    spawn,
    threads,
)


def test_a_mismatch_is_raised_where_it_is_waited_for_with_the_place_of_the_call():
    def on_each_rank(comm):
        good = comm.allreduce_async(np.ones(3))
        bad = comm.allreduce_async(np.ones(3 + comm.rank))
        after = comm.barrier_async()
        assert (good.wait() == comm.size).all()
        with pytest.raises(collalgo.MismatchError) as caught:
            bad.wait()
        if sys.version_info >= (3, 11):  # which has notes
            assert Path(__file__).name in caught.value.__notes__[0]
        assert bad.exception() is caught.value
        with pytest.raises(collalgo.CollalgoError):
            after.wait()

    threads(on_each_rank, 2, timeout=60)


def die_under_way(comm):
    work = comm.allreduce_async(np.ones(3))
    work.wait()
    if comm.rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    work = comm.allreduce_async(np.ones(3))
    error = work.exception()
    assert isinstance(error, PeerFailed)
    assert error.missing == (1,)


def test_a_death_is_told_by_the_work():
    with pytest.raises(collalgo.CollalgoError, match="rank 1 was killed by SIGKILL"):
        spawn(die_under_way, 3, timeout=60)


def interrupted(comm):
    comm.barrier()
    if comm.rank == 0:
        # What a shell starts in the background may have been told to ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            comm.allreduce_async(np.ones(10)).wait()
        assert time.monotonic() - began < 1.5
    else:
        time.sleep(2)
        with pytest.raises(PeerFailed, match="rank 0 is gone"):
            for _ in range(2):  # the first may have been sent before
                comm.allreduce(np.ones(10))


@pytest.mark.deadline
def test_a_wait_can_be_interrupted():
    spawn(interrupted, 2, timeout=60)


def forked(comm):
    work = comm.allreduce_async(np.ones(3))
    work.wait()
    child = os.fork()
    if child == 0:
        try:
            comm.allreduce_async(np.ones(3))
        except CommunicatorClosed as error:
            os._exit(7 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (comm.allreduce(np.ones(3)) == comm.size).all()


def test_a_forked_child_has_no_background():
    spawn(forked, 2, timeout=60)


def interrupted_by(comm, how):
    """A signal handler makes a call while its own rank is in another."""

    def handler(*_):
        how(comm)

    if comm.rank == 0:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(CollalgoError, match="in which a signal handler, a done"):
            comm.barrier()
    else:
        time.sleep(0.3)
        with pytest.raises(PeerFailed, match="interrupted in barrier by CollalgoError"):
            comm.barrier()  # which has had the message of rank 0 before
            comm.barrier()


def interrupted_in_many_ways(comm):
    hows = [
        lambda part: part.allreduce(np.ones(3)),
        lambda part: part.allreduce_async(np.ones(3)).wait(),
        lambda part: part.allgatherv(np.ones(part.rank)),
    ]
    for used in (False, True):
        for how in hows:
            part = comm.dup()
            if used:
                part.barrier_async().wait()
            interrupted_by(part, how)
            part.close()
    comm.barrier()


def receives_in_a_handler(comm):
    """The message that a handler receives comes second, after a first message."""
    comm.sendrecv(np.ones(1), 1 - comm.rank, np.empty(1), 1 - comm.rank)
    comm.barrier()
    if comm.rank == 0:
        taken = []
        signal.signal(
            signal.SIGALRM, lambda *_: taken.append(comm.recv(np.ones(1), 1)[0])
        )
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert comm.recv(np.ones(1), 1)[0] == 5
        assert taken == [6]
    else:
        time.sleep(0.6)
        comm.send(np.full(1, 5.0), 0)
        comm.send(np.full(1, 6.0), 0)


def prepares_its_first_message(comm):
    """A signal comes while it does, whose handler asks for messages."""
    prepare = type(comm)._new_mailbox

    def prepares(comm):
        signal.raise_signal(signal.SIGUSR1)
        return prepare(comm)

    type(comm)._new_mailbox = prepares
    signal.signal(signal.SIGUSR1, lambda *_: comm.iprobe(0))
    with pytest.raises(CollalgoError, match="its own thread is changing"):
        comm.iprobe(0)
    type(comm)._new_mailbox = prepare
    assert comm.iprobe(0) is None
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.deadline
def test_a_signal_handler_is_refused_while_the_first_message_is_prepared():
    spawn(prepares_its_first_message, 1, timeout=60)


@pytest.mark.deadline
def test_a_call_of_a_signal_handler_during_another_says_what_it_is():
    spawn(interrupted_in_many_ways, 2, timeout=60)


@pytest.mark.deadline
def test_a_signal_handler_may_receive_a_message_while_its_rank_does():
    spawn(receives_in_a_handler, 2, timeout=60)
