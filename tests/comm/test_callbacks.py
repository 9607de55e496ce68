"""Errors of callbacks, and errors that are reported by hand, end nothing."""

import subprocess
import sys

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


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("kind", ["call", "message"])
def test_an_error_of_a_callback_is_reported_and_not_raised(
    kind, ended, error, monkeypatch
):
    reported = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: reported.append(kind))

    def raises(_):
        raise error

    def on_each_rank(comm):
        works = begun(comm, kind)
        if ended:
            collalgo.waitall(works)
        for work in works:
            work.add_done_callback(raises)
        collalgo.waitall(works)
        return comm.allreduce(np.ones(1))[0]

    assert threads(on_each_rank, 2, timeout=60) == [2, 2]
    assert reported == [error] * (2 if kind == "call" else 4)


def test_an_error_that_is_only_reported_ends_nothing_and_an_uncaught_one_does(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(REPORTS)
    run = [sys.executable, "-m", "collalgo", "run", "-n", "2", sys.executable, script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    lines = sorted(done.stdout.splitlines())
    assert lines == ["[0] 2.0", "[0] True", "[1] 2.0"], done.stderr
