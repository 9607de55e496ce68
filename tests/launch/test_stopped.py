"""Ranks that a signal has stopped are named, each once."""

import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from collalgo.launch import stopped
from collalgo.launch.stopped import stopped_ranks_reported
from tests.support.store_clients import until

PERIOD = 0.02


@pytest.fixture
def rank():
    """A rank that sleeps."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield SimpleNamespace(rank=3, process=process)
        process.kill()


@pytest.fixture
def said(monkeypatch):
    """What the launcher reports."""
    found = []
    monkeypatch.setattr(stopped, "report", found.append)
    return found


def test_a_stopped_rank_is_named_once_each_time(rank, said):
    with stopped_ranks_reported(lambda: [rank], PERIOD):
        for count in (1, 2):
            rank.process.send_signal(signal.SIGSTOP)
            until(lambda count=count: len(said) == count)
            time.sleep(5 * PERIOD)
            rank.process.send_signal(signal.SIGCONT)
            time.sleep(5 * PERIOD)
    assert len(said) == 2
    process = rank.process.pid
    assert said[0].startswith(f"rank 3 (process {process}) is stopped by a signal")
    assert said[0].endswith(f"kill -CONT {process}")


def test_ranks_that_run_or_have_ended_are_not_named(rank, said):
    with stopped_ranks_reported(lambda: [rank], PERIOD):
        time.sleep(5 * PERIOD)
        rank.process.kill()
        rank.process.wait()
        time.sleep(5 * PERIOD)
    assert not said


@pytest.mark.deadline
def test_a_job_whose_rank_stops_itself_says_so():
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    run = [sys.executable, "-m", "collalgo", "run", "-n", "1"]
    with subprocess.Popen(
        [*run, sys.executable, "-c", script], stderr=subprocess.PIPE, text=True
    ) as job:
        line = job.stderr.readline()
        assert "rank 0 (process " in line
        assert "is stopped by a signal" in line
        job.terminate()
