"""The ranks of this host while they run: no stop, death or start loses one of them."""

import errno
import os
import signal
import sys

import pytest

from collalgo.errors import RendezvousError
from collalgo.launch import child, node_store
from collalgo.launch.local import LocalLaunch
from collalgo.launch.options import LaunchOptions
from collalgo.launch.ranks import RankSpec
from collalgo.launch.restarting import RestartingLaunch, restarting_launch

#: A rank that cleans up when it is asked to end, and asks its launcher to, if told.
CLEANS = """
trap 'echo bye; sleep 0.1; echo saved > saved; exit' INT TERM
{}
while echo more; do sleep 0.02; done
"""


def shell(script):
    """The command of a rank that a shell runs."""
    return ["sh", "-c", script]


def spec(rank=0):
    return RankSpec(rank, dict(os.environ))


@pytest.mark.parametrize(
    ("request_", "code"), [("kill -INT $PPID", 130), ("", 128 + signal.SIGPIPE)]
)
def test_ranks_clean_up_when_nobody_reads_their_output(
    tmp_path, monkeypatch, capfd, request_, code
):
    """As after Ctrl-C to a job and to the tee that it writes to."""
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert LocalLaunch(shell(CLEANS.format(request_)), [spec()]).run() == code
    assert (tmp_path / "saved").exists()
    assert "collalgo run" not in capfd.readouterr().err


def test_a_node_holds_the_store_until_its_ranks_have_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    events = []

    class Held:
        is_held = False

        def __init__(self, *_):
            pass

        def begin(self):
            pass

        def drain(self, _seconds):
            events.append((tmp_path / "saved").exists())

        def end(self):
            events.append("closed")

    monkeypatch.setattr(node_store, "Hosting", Held)
    monkeypatch.setattr("collalgo.launch.restarting.check_start", lambda *_: None)
    options = LaunchOptions(
        shell(CLEANS.format("kill -TERM $PPID")),
        elastic=True, nodes=(1, 1), rendezvous="127.0.0.1:2900",
    )  # fmt: skip
    assert restarting_launch(options, 1).run() == 128 + signal.SIGTERM
    assert events == [True, "closed"]


def test_a_node_that_cannot_hold_the_store_says_so(monkeypatch):
    def refused(_hosting):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(node_store.Hosting, "begin", refused)
    options = LaunchOptions(
        ["true"], elastic=True, nodes=(1, 1), rendezvous="127.0.0.1:80"
    )
    told = r"cannot hold the store of job job at collalgo://127\.0\.0\.1:80: Permission"
    with pytest.raises(RendezvousError, match=told):
        restarting_launch(options, 1).run()


def test_a_rank_that_is_restarted_often_holds_no_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr("collalgo.launch.back_off.BACK_OFF", 0.0)
    counts = tmp_path / "counts"
    command = shell(f"ls /proc/$PPID/fd | wc -l >> {counts}; exit 1")
    assert RestartingLaunch(command, [spec()], restarts=9).run() == 1
    first, *_, last = map(int, counts.read_text().split())
    assert last < first + 9


def test_a_restart_that_the_system_refuses_is_tried_again(monkeypatch, capfd):
    monkeypatch.setattr("collalgo.launch.back_off.BACK_OFF", 0.0)
    turns, begin = [], child._started

    def refused_once(*words):
        turns.append(words)
        if len(turns) == 2:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return begin(*words)

    monkeypatch.setattr(child, "_started", refused_once)
    command = shell("exit $(( TORCHELASTIC_RESTART_COUNT < 2 ))")
    assert RestartingLaunch(command, [spec()], restarts=2).run() == 0
    told = capfd.readouterr().err
    assert "rank 0 cannot be started: Resource temporarily unavailable" in told
    assert told.rstrip().endswith("; restart 2 of 2")


def test_a_rank_that_starts_while_its_job_is_stopped_is_ended(monkeypatch):
    started, begin = [], child._started

    def interrupted(*words):
        started.append(begin(*words))
        signal.raise_signal(signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(child, "_started", interrupted)
    try:
        assert LocalLaunch(["sleep", "60"], [spec()]).run() == 128 + signal.SIGTERM
        assert started[0].returncode == -signal.SIGTERM
    finally:
        started[0].kill()


def test_a_process_that_cannot_be_watched_is_ended(monkeypatch, capfd):
    started, begin = [], child._started

    def refused(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    def noted(*words):
        started.append(begin(*words))
        return started[-1]

    monkeypatch.setattr(child, "_started", noted)
    monkeypatch.setattr(os, "pidfd_open", refused)
    assert LocalLaunch(["sleep", "60"], [spec(5)]).run() == 1
    assert started[0].returncode == -signal.SIGKILL
    assert "rank 5 cannot be started: Too many open files" in capfd.readouterr().err
