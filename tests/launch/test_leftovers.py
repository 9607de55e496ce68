"""Nothing that ranks have started is left when a job is over, however it ends."""

import os
import signal
import subprocess
import sys
import time
from itertools import product

import pytest

from collalgo.launch.local import LocalLaunch
from collalgo.launch.ranks import Rank, RankSpec
from collalgo.launch.session_guard import SessionGuard
from tests.launch.test_run import COLLALGO, alive, gone
from tests.support.leisure import at_leisure

#: A rank that starts a process in its group, one in a group of its own as shells with
#: job control do, and one of the latter that starts another; they ignore SIGTERM.
#: It ends at its SIGTERM, or by itself once there is a file.
RANK = """
import os, signal, sys, time
folder, code = sys.argv[1:]
def child(own_group, then=lambda: None):
    if os.fork() == 0:
        if own_group:
            os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        then()
        name = f"{folder}/pid.{os.getpid()}"
        os.close(os.open(name, os.O_CREAT))
        os.execvp("sleep", ["sleep", "60"])
child(False)
child(True)
child(True, lambda: child(True))
while not os.path.exists(f"{folder}/over"):
    time.sleep(0.01)
sys.exit(int(code))
"""

#: One host and, by what stands for ssh, two.
HOSTS = [("-n", "2"), ("-H", "a:1,b:1")]

#: How a launcher is ended.
ENDS = [signal.SIGTERM, signal.SIGKILL]

#: The processes that the ranks of a job start.
STARTED = 8


def started_by_ranks(folder, code, hosts):
    """A launcher, and the processes that its ranks have started."""
    script = folder / "rank.py"
    script.write_text(RANK)
    command = [*COLLALGO, "run", *hosts, sys.executable, str(script), str(folder), code]
    launcher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while len(found := [*folder.glob("pid.*")]) < STARTED:
        assert time.monotonic() < end, found
        time.sleep(0.02)
    time.sleep(0.1)  # the launcher notes the last rank
    return launcher, [int(path.suffix[1:]) for path in found]


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    ("hosts", "code"),
    at_leisure(product(HOSTS, ["0", "3"]), [*zip(HOSTS, ["0", "3"], strict=True)]),
)
def test_what_ranks_have_started_ends_with_them(tmp_path, hosts, code):
    launcher, started = started_by_ranks(tmp_path, code, hosts)
    (tmp_path / "over").touch()
    assert launcher.wait(30) == int(code)
    assert gone(started, within=5 if "-H" in hosts else 0.5)


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    ("hosts", "number"),
    at_leisure(product(HOSTS, ENDS), [*zip(HOSTS, ENDS, strict=True)]),
)
def test_what_ranks_have_started_ends_with_their_launcher(tmp_path, hosts, number):
    launcher, started = started_by_ranks(tmp_path, "0", hosts)
    launcher.send_signal(number)
    launcher.wait(30)
    assert gone(started, within=15)


@pytest.mark.parametrize("rude", [False, True])
def test_other_processes_stay(tmp_path, rude):
    """Those of the launcher's session and of sessions that a rank has begun."""
    line = f"setsid sleep 60 & echo $! > {tmp_path}/daemon; sleep 60"
    other = subprocess.Popen(["sleep", "60"], preexec_fn=os.setpgrp)
    job = subprocess.Popen([*COLLALGO, "run", "-n", "1", "sh", "-c", line])
    file, end = tmp_path / "daemon", time.monotonic() + 30
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < end
        time.sleep(0.02)
    daemon = int(file.read_text())
    while os.getsid(daemon) != daemon:
        assert time.monotonic() < end
    job.send_signal(signal.SIGKILL if rude else signal.SIGTERM)
    job.wait(30)
    time.sleep(0.5)
    assert alive(daemon)
    assert alive(other.pid)
    os.kill(daemon, signal.SIGKILL)
    other.kill()
    other.wait()


def test_ranks_are_reaped_when_no_guard_knows_their_numbers(monkeypatch):
    done = []
    close, release = SessionGuard.close, Rank._release
    monkeypatch.setattr(
        SessionGuard, "close", lambda g: (done.append("guard"), close(g))
    )
    monkeypatch.setattr(Rank, "_release", lambda r: (done.append("rank"), release(r)))
    assert LocalLaunch(["true"], [RankSpec(0, dict(os.environ))]).run() == 0
    assert done[:2] == ["guard", "rank"]
