"""Survivors go on in their processes after others have been killed.

A job in which ranks were killed reports that, so survivors write a file at their end.
"""

import os
import random
import signal
import time
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from collalgo import CollalgoError, PeerFailed, spawn
from collalgo._kernels.engine.transport import survivors
from collalgo.comm.current import runner_of

pytestmark = pytest.mark.deadline


def kill_after(seconds):
    Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()


def sum_of(comm):
    return int(comm.allreduce(np.array([1]))[0])


def fail(comm):
    """Make calls until one fails."""
    x = np.ones(100_000)
    with pytest.raises(PeerFailed):
        while True:
            comm.allreduce(x, "max")
            comm.barrier()


def survive(comm):
    Path(os.environ["SURVIVORS"], str(comm.rank)).touch()


def one_after_the_other(comm):
    """The last rank is killed, again and again; memory of groups is used again."""
    world = comm
    for size in range(world.size - 1, 0, -1):
        if comm.rank == size:
            kill_after(random.uniform(0, 0.02))
        fail(comm)
        left = comm.shrink(timeout=20)
        assert (left.size, left.rank) == (size, world.rank)
        assert sum_of(left) == size
        comm.close()
        comm = left
    assert sum_of(comm.split(0)) == 1
    survive(world)


def during_the_agreement(comm):
    """Two ranks die after they have come to the agreement: before and after it."""
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    fail(comm)
    if comm.rank in (2, 3):
        context = runner_of(comm).context
        context.revoke(survivors.next_call(context.shared))
        survivors.enter_round(context.shared, 1)
        while comm.rank == 3 and not survivors.await_decision(context.shared, 1, 1.0):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(random.uniform(0, 0.01))
    left = comm.shrink(timeout=20)
    assert (left.size, sum_of(left)) == (2, 2)
    assert left.rank == (0, 4).index(comm.rank)
    survive(comm)


@pytest.mark.parametrize(
    ("phase", "size", "alive"),
    [(one_after_the_other, 3, {"0"}), (during_the_agreement, 5, {"0", "4"})],
)
def test_survivors_go_on_in_their_processes(phase, size, alive, tmp_path, monkeypatch):
    monkeypatch.setenv("SURVIVORS", str(tmp_path))
    with pytest.raises(CollalgoError, match=r"rank \d was killed by SIGKILL"):
        spawn(phase, size, timeout=60)
    assert set(os.listdir(tmp_path)) == alive
