"""Errors of callbacks, and errors that are reported by hand, end nothing."""

import subprocess
import sys
import time

import numpy as np
import pytest

import collalgo
from collalgo import threads

REPORTS = """
import sys
import collalgo, numpy as np
comm = collalgo.init(timeout=20)
try:
    1 / 0
except ZeroDivisionError:
    sys.excepthook(*sys.exc_info())
work = comm.allreduce_async(np.ones(10))
work.add_done_callback(lambda _: 2 / 0)
work.wait()
print(comm.allreduce(np.ones(1))[0])
if comm.rank == 1:
    raise RuntimeError("the end")
try:
    comm.barrier()
except collalgo.PeerFailed as error:
    print("the end" in str(error))
"""


def begun(comm, kind):
    """A call in the background, or two messages."""
    if kind == "call":
        return [comm.allreduce_async(np.ones(9))]
    other = 1 - comm.rank
    return [comm.isend(np.ones(9), other), comm.irecv(np.ones(9), other)]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("kind", ["call", "message"])
def test_an_error_of_a_callback_is_reported_and_not_raised(kind, ended, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: reported.append(kind))

    def raises(_):
        raise ZeroDivisionError

    def on_each_rank(comm):
        works = begun(comm, kind)
        if ended:
            collalgo.waitall(works)
        for work in works:
            work.add_done_callback(raises)
        collalgo.waitall(works)
        return comm.allreduce(np.ones(1))[0]

    assert threads(on_each_rank, 2, timeout=60) == [2, 2]
    assert reported == [ZeroDivisionError] * (2 if kind == "call" else 4)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("kind", ["call", "message"])
def test_an_interrupt_in_a_callback_reaches_the_main_thread(kind, ended, error):
    """Whichever thread has run it; the callbacks after it are called, too."""
    called = []

    def raises(_):
        raise error(7)

    def on_each_rank(comm):
        works = begun(comm, kind)
        if ended:
            collalgo.waitall(works)
        if comm.rank == 0:
            works[-1].add_done_callback(raises)
            works[-1].add_done_callback(called.append)
        collalgo.waitall(works)
        comm.barrier()

    with pytest.raises(error) as raised:
        threads(on_each_rank, 2, timeout=60)
        time.sleep(1)  # the main thread may come late
    assert raised.value.args == (7,)
    assert len(called) == 1


def test_an_error_that_is_only_reported_ends_nothing_and_an_uncaught_one_does(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(REPORTS)
    run = [sys.executable, "-m", "collalgo", "run", "-n", "2", sys.executable, script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    lines = sorted(done.stdout.splitlines())
    assert lines == ["[0] 2.0", "[0] True", "[1] 2.0"], done.stderr
