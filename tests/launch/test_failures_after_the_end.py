"""collalgo run --min: ranks that fail after the training, or that come too late."""

import pytest

from tests.launch.test_restarting import run

FAILING = """
import os, signal, sys, time
from collalgo import elastic

@elastic.run
def train(comm, state):
    while state.step < 3:
        comm.barrier()
        if sys.argv[1] == "in training" and me == 1:
            raise KeyError("a bad sample")
        state.step += 1
        state.commit()

me, case = int(os.environ["RANK"]), sys.argv[1]
try:
    train(elastic.State(step=0))
except KeyError:
    time.sleep(1)  # the others have ended
    raise
if case == "on all" or case == "on one" and me == 1:
    raise OSError("the disk is full")
if case == "by a signal":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(2)  # the failures come first
"""


@pytest.mark.parametrize(
    ("case", "code"),
    [("on all", 1), ("on one", 1), ("by a signal", 137), ("in training", 0)],
)
def test_a_job_has_the_exit_code_of_a_failure_that_no_restart_repairs(
    tmp_path, case, code
):
    """The others have finished the work of one that has failed in the training."""
    script = tmp_path / "script.py"
    script.write_text(FAILING)
    done = run("-n 3 --min 2", case, script=script)
    assert done.returncode == code, done.stdout + done.stderr
    if code == 1:
        assert "OSError: the disk is full" in done.stderr.splitlines()[-1], done.stderr


STOPPED = """
import os, signal, time
from pathlib import Path
from collalgo import elastic

ended, me = Path("ended"), int(os.environ["RANK"])

@elastic.run
def train(comm, state):
    while state.step < 9:
        if me == 1 and state.step == 3:
            stop()
        comm.barrier()
        state.step += 1
        state.commit()

def stop():
    member = os.getpid()
    if os.fork() == 0:
        while not ended.exists():
            time.sleep(0.05)
        os.kill(member, signal.SIGCONT)
        os._exit(0)
    os.kill(member, signal.SIGSTOP)

train(elastic.State(step=0))
ended.touch()
"""


@pytest.mark.deadline
def test_a_member_that_is_stopped_until_the_others_have_ended_says_it_in_a_line(
    tmp_path, monkeypatch
):
    """As a restarted rank that comes too late; the others name the stopped one."""
    monkeypatch.setenv("COLLALGO_SILENCE", "1")
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(STOPPED)
    done = run("-n 3 --min 2", script=script)
    assert done.returncode == 0, done.stderr
    assert "[1] the job ended without this member" in done.stderr
    assert done.stderr.count("rank 1 was lost; 2 members continue from revision") == 2
    assert "Traceback" not in done.stderr
