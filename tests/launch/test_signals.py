"""Signals of the launcher reach the ranks, and those that are ignored end nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from collalgo.launch.agent_group import AgentGroup
from collalgo.launch.agents import AgentStart
from collalgo.launch.child import Child, Deadline, as_completed
from collalgo.launch.hosts import Host
from collalgo.launch.output import sinks
from collalgo.launch.remote_shell import remote_shell
from collalgo.launch.signals import (
    STOPS,
    StopRequested,
    ignore_requests,
    requests_until_exit,
    signals_forwarded,
    signals_raise,
)

pytestmark = pytest.mark.deadline

RUN = (sys.executable, "-m", "collalgo", "run")

#: A rank that says which signals it gets, until it is told to end.
LISTENS = """
import os, signal, sys, time
over = []
def note(number, _):
    print("got", signal.Signals(number).name, flush=True)
for name in ("SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGWINCH", "SIGCONT"):
    signal.signal(getattr(signal, name), note)
def end(number, _):
    time.sleep(1)
    print("cleaned", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", os.getpid(), flush=True)
deadline = time.monotonic() + 60
while not os.path.exists(sys.argv[1]) and time.monotonic() < deadline:
    time.sleep(0.02)
print("over", flush=True)
"""

#: One host and, by what stands for ssh, two.
HOSTS = [("-n", "2"), ("-H", "a:1,b:1")]


class Job:
    """A job whose ranks listen, or do something else, with what they have said."""

    def __init__(self, tmp_path, *options, program=LISTENS, **started):
        (tmp_path / "program.py").write_text(program)
        self.flag = tmp_path / "over"
        command = [*RUN, *options, str(tmp_path / "program.py"), str(self.flag)]
        self.launcher = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, **started
        )  # fmt: skip
        self.said = []
        self.wait_for("ready", 2)

    def wait_for(self, word, times):
        """Read lines until a word has come often enough."""
        while sum(word in line for line in self.said) < times:
            line = self.launcher.stdout.readline()
            assert line, self.said
            self.said.append(line)

    @property
    def processes(self):
        lines = [line.split() for line in self.said if "ready" in line]
        return [int(words[-1]) for words in lines]

    def end(self):
        """Let the ranks end: the exit code of the launcher."""
        self.flag.touch()
        return self.ended()

    def ended(self):
        """Wait for the end of the job: the exit code of the launcher."""
        self.said += self.launcher.stdout.readlines()
        self.launcher.stdout.close()
        return self.launcher.wait(60)


def state(process):
    """The state of a process, as in ps."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def wait_state(processes, states):
    """Wait until all processes are in one of some states."""
    deadline = time.monotonic() + 30
    while not all(state(each) in states for each in processes):
        assert time.monotonic() < deadline, [state(each) for each in processes]
        time.sleep(0.02)


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("hosts", HOSTS)
def test_signals_for_the_ranks_reach_them_and_end_nothing(tmp_path, hosts):
    job = Job(tmp_path, *hosts)
    for name in ("SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGWINCH"):
        job.launcher.send_signal(getattr(signal, name))
        job.wait_for(f"got {name}", 2)
    assert job.end() == 0
    assert sum("over" in line for line in job.said) == 2


#: A rank that waits for another in a call, and one that does not make it.
STUCK = """
import collalgo, time
comm = collalgo.init()
def absent():
    print("ready", flush=True)
    time.sleep(60)
def waiting():
    print("ready", flush=True)
    comm.barrier()
(absent if comm.rank else waiting)()
"""

#: A rank with a handler of its own, which compiled code installs.
HANDLES = "import faulthandler, signal; faulthandler.register(signal.SIGQUIT)" + STUCK


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("hosts", HOSTS)
def test_sigquit_writes_the_stacks_of_all_ranks_and_ends_them(tmp_path, hosts):
    job = Job(tmp_path, *hosts, program=STUCK)
    job.launcher.send_signal(signal.SIGQUIT)
    assert job.ended() == 128 + signal.SIGQUIT
    for name in ("absent", "waiting"):
        assert any(f"in {name}" in line and line.startswith("[") for line in job.said)


def test_a_handler_of_sigquit_remains(tmp_path):
    job = Job(tmp_path, "-n", "2", program=HANDLES)
    for times in (1, 2):
        job.launcher.send_signal(signal.SIGQUIT)
        job.wait_for("in absent", times)
    job.launcher.terminate()
    assert job.ended() == 128 + signal.SIGTERM


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("hosts", HOSTS)
def test_a_job_is_suspended_and_continued_as_a_whole(tmp_path, hosts):
    job = Job(tmp_path, *hosts)
    job.launcher.send_signal(signal.SIGTSTP)
    wait_state([job.launcher.pid, *job.processes], "T")
    job.launcher.send_signal(signal.SIGCONT)
    job.wait_for("got SIGCONT", 2)
    assert job.end() == 0


def test_a_signal_that_another_thread_receives_is_handled_at_once():
    """So is one that comes just before the launcher begins to wait."""
    child = Child(["sleep", "60"], sinks())

    def send(_number):
        child.process.kill()

    def receive():
        time.sleep(0.2)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        time.sleep(0.5)

    other = threading.Thread(target=receive)
    with signals_raise(), signals_forwarded(send, stops=True):
        other.start()
        ended = [each.returncode for each in as_completed([child], Deadline(30))]
    other.join()
    child.close()
    assert ended == [-signal.SIGKILL]


def test_a_stop_that_another_thread_receives_ends_the_wait_for_a_host(monkeypatch):
    """So does one that comes just before the launcher begins to wait."""
    monkeypatch.setenv("COLLALGO_RSH", "sh -c 'sleep 60' --")
    agents = AgentGroup()
    start = AgentStart([Host("a", 1)], remote_shell(), sinks(), agents)

    def receive():
        time.sleep(0.2)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    other = threading.Thread(target=receive)
    begun = time.monotonic()
    with pytest.raises(StopRequested), signals_raise():
        other.start()
        start.run(30)
    other.join()
    agents.close()
    assert time.monotonic() - begun < 20


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("hosts", HOSTS)
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(tmp_path, hosts):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    job = Job(tmp_path, *hosts, preexec_fn=ignore)
    job.launcher.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert job.end() == 0
    assert sum("over" in line for line in job.said) == 2


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("hosts", HOSTS)
def test_a_stop_that_comes_twice_at_once_leaves_time_to_clean_up(tmp_path, hosts):
    """As by timeout, which sends it to the launcher and to its process group."""
    job = Job(tmp_path, *hosts, start_new_session=True)
    os.kill(job.launcher.pid, signal.SIGTERM)
    os.killpg(job.launcher.pid, signal.SIGTERM)
    assert job.ended() == 128 + signal.SIGTERM
    assert sum("cleaned" in line for line in job.said) == 2, job.said


@pytest.mark.parametrize("number", STOPS)
def test_a_request_to_stop_is_the_last_until_the_exit(number):
    """Between the handlers of the launcher and the end of its process, too."""
    before = {each: signal.getsignal(each) for each in STOPS}
    signal.signal(number, lambda *_: 1 / 0)
    try:
        with requests_until_exit(), pytest.raises(ZeroDivisionError):
            signal.raise_signal(number)  # nobody has asked before
        with requests_until_exit():
            with signals_raise():
                with pytest.raises(StopRequested):
                    signal.raise_signal(number)
                ignore_requests()
                signal.raise_signal(number)
            signal.raise_signal(number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        for each in STOPS:
            signal.signal(each, before[each])


@pytest.mark.usefixtures("rsh")
def test_two_requests_to_stop_end_a_job_on_several_hosts(tmp_path):
    slow = LISTENS.replace("time.sleep(1)", "time.sleep(60)")
    job = Job(tmp_path, "-H", "a:1,b:1", program=slow)
    job.launcher.terminate()
    time.sleep(1.2)  # the ranks clean up, as they may for some seconds
    job.launcher.terminate()
    while job.launcher.poll() is None:  # and while it ends
        job.launcher.terminate()
        time.sleep(1e-3)
    assert job.ended() == 128 + signal.SIGTERM
    assert not any("Traceback" in line for line in job.said)


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("/no/such/shell", "COLLALGO_RSH names no program that can be run"),
        ('"unclosed', "COLLALGO_RSH is not a command"),
        ("script", "received no command"),
    ],
)
def test_a_remote_shell_that_cannot_be_is_one_sentence(tmp_path, shell, words):
    if shell == "script":
        shell = str(tmp_path / "shell")
        Path(shell).write_text('#!/bin/sh\nshift; exec sh -c "$*" < /dev/null\n')
        Path(shell).chmod(0o700)
    done = subprocess.run(
        [*RUN, "-H", "a:1,b:1", "echo", "hi"],
        env={**os.environ, "COLLALGO_RSH": shell},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
