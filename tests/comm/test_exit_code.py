"""A process whose communicators have seen a mismatch at its end fails, and only it."""

import subprocess
import sys

import pytest

FAILS = """
import atexit, os, sys
from collalgo._kernels.comm.exit_code import fail_at_exit
atexit.register(print, "the last words")
fail_at_exit(), fail_at_exit()
if os.fork() == 0:
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), "of the child")
"""

JOB = """
import collalgo, numpy as np
comm = collalgo.init()
part = comm.split(comm.rank < 2)
part.broadcast(np.ones(2), part.rank if {wrong} else 0)
comm.broadcast(np.ones(2), 1)
"""


def test_everything_that_a_failing_process_does_at_its_end_is_done():
    done = subprocess.run(
        [sys.executable, "-c", FAILS], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    assert "the last words" in done.stdout
    assert "0 of the child" in done.stdout


@pytest.mark.parametrize("wrong", [False, True])
def test_a_job_fails_if_the_calls_of_an_open_group_differed(wrong, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(JOB.format(wrong=wrong))
    command = [sys.executable, "-m", "collalgo", "run", "-n", "3", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == int(wrong), done.stderr
    said = "collalgo.MismatchError: broadcast #1: rank "
    assert (said in done.stderr + done.stdout) == wrong


UNWAITED = """
import collalgo, numpy as np
comm = collalgo.init()
comm.allreduce_async(np.ones(9))
part = comm.dup()
if comm.rank == 0:
    part.allreduce_async(np.ones(9))
    part.close()
    comm.allgather_async(np.ones(9))
"""


def test_a_call_in_the_background_that_nobody_else_makes_fails_the_job(tmp_path):
    """A call that all have made completes, though nobody waits for it."""
    script = tmp_path / "job.py"
    script.write_text(UNWAITED)
    command = [sys.executable, "-m", "collalgo", "run", "-n", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    made = f"made in the background at {script}:"
    assert f"close: rank 0: allreduce #1, {made}7, has not completed" in done.stderr
    assert "wait for it before close(), which ends it" in done.stderr
    assert f"rank 0: allgather #3, {made}9, has failed: allgather #3" in done.stderr
    assert "job.py:4" not in done.stderr
