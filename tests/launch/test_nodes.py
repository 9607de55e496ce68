"""Elastic jobs on several hosts, which here are names of one machine, and UCX between.

Deadlines bound how long an event may take; they do not measure speed.
"""

import os
import re
import signal
import subprocess
import sys

import pytest

from collalgo.errors import BootstrapError
from collalgo.launch import nodes, output
from collalgo.launch.discovery import Discovery
from collalgo.launch.hosts import Host
from collalgo.launch.network import Listener
from collalgo.launch.node_agent import NodeAgent
from collalgo.launch.process import processes
from collalgo.launch.remote_shell import remote_shell
from collalgo.launch.signals import StopRequested
from tests.launch.test_restarting import SCRIPT, weights

ELASTIC = """
import os, sys
from collalgo import elastic

state = elastic.State(step=0, most=0)

@elastic.run
def train(comm, state):
    print("members", comm.size, "process", os.getppid(), flush=True)
    while not os.path.exists(sys.argv[1]):
        comm.barrier()
        state.step += 1
        state.commit()

train(state)
"""


class Job:
    """A job, and the output that it has written so far."""

    def __init__(self, words, folder):
        self.script, self.end = folder / "train.py", folder / "end"
        self.script.write_text(ELASTIC)
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "collalgo", "run", *words, self.script, self.end],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def until(self, pattern):
        """Read until a line has a pattern that none before has."""
        while not (found := re.search(pattern, line := self.process.stdout.readline())):
            self.seen += line
            assert line, self.seen
        return found

    def finish(self):
        """Let the training end: the exit code."""
        self.end.touch()
        self.seen += self.process.communicate(timeout=60)[0]
        return self.process.returncode


@pytest.fixture
def job(tmp_path, rsh):
    """Start a job on hosts."""
    made = []

    def start(*words):
        made.append(Job(words, tmp_path))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.communicate()


@pytest.mark.deadline
def test_a_host_is_lost_and_comes_back(job):
    running = job("-H", "a:1,b:1", "--min", "1")
    agent = int(running.until(r"\[1\] members 2 process (\d+)")[1])
    parents = {each.number: each.parent for each in processes()}
    os.kill(agent, signal.SIGKILL)
    running.until(r"host b is lost: .* ended with -9; it is tried again in 1 s")
    running.until(r"\[1\] members 2")
    assert running.finish() == 0, running.seen
    assert parents[agent] == running.process.pid


@pytest.mark.deadline
def test_a_script_adds_and_removes_hosts_and_its_faults_change_nothing(job, tmp_path):
    hosts, script = tmp_path / "hosts", tmp_path / "hosts.sh"
    hosts.write_text("a\nb slots=1\n")
    script.write_text(f'#!/bin/sh\ncat "{hosts}"\n')
    script.chmod(0o700)
    running = job("--elastic", "--discover", script, "--nodes", "1:2")
    running.until(r"\[1\] members 2")
    hosts.write_text("a b c d e f:\n")
    running.until(r"hosts.sh prints no hosts: its output, line 1: 'b' is not a setting")
    hosts.write_text("b slots=1\n")
    running.until(r"host a is no longer a host of the job")
    running.until(r"\[1\] members 1")
    hosts.write_text("a\nb slots=1\n")
    running.until(r"\[0\] members 2")
    assert running.finish() == 0, running.seen


@pytest.mark.deadline
@pytest.mark.slow
def test_ranks_die_on_several_hosts_and_the_weights_are_the_same(rsh):
    words = ["-H", "a:1,b:2", "--min", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "run", *words, SCRIPT, "30",
         "1:0:7,2:0:12", "wait"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ends = re.findall(r"\[(\d)\] 3 members, process \d+: (\w+)", done.stdout)
    assert sorted(ends) == [(rank, weights(30)) for rank in "012"], done.stderr


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ("a:1,b:1", r"host [ab] has failed: .*\(fewer than 1 rank left\)"),
        ("nowhere:1", r"host nowhere cannot be used: .* ended with 255 \(fewer than 1"),
    ],
)
def test_a_job_without_enough_hosts_ends_with_the_last_failure(tmp_path, hosts, told):
    (tmp_path / "train.py").write_text("1 / 0")
    words = f"-H {hosts} --min 1 --max-restarts 0 --start-timeout 2".split()
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "run", *words, tmp_path / "train.py"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert re.search(told, done.stderr), done.stderr
    assert ("ZeroDivisionError: division by zero" in done.stderr) == (
        hosts != "nowhere:1"
    )


# ---- discovery


def discovery(folder, text, slots=2):
    script = folder / "hosts.sh"
    script.write_text(text)
    script.chmod(0o700)
    return Discovery(script, slots)


def test_a_script_prints_hosts(tmp_path):
    script = "#!/bin/sh\nprintf '# mine\\na\\nb:3\\nc slots=4\\n'\n"
    found = discovery(tmp_path, script).first()
    assert found == [Host("a", 2), Host("b", 3), Host("c", 4)]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("#!/bin/sh\nexit 3\n", "it ended with exit code 3"),
        ("#!/bin/sh\nkill -9 $$\n", "it was killed by SIGKILL"),
        ("#!/bin/sh\n", "it has printed nothing"),
        ("#!/bin/sh\necho a:x\n", "host a has 'x' slots"),
        ("#!/bin/sh\necho '$(rm)'\n", r"'\$\(rm\)' is not the name of a host"),
        ("#!/bin/sh\nprintf 'a\\nb\\na:2\\n'\n", "host a is printed twice"),
        ("#!/bin/sh\nprintf '\\377'\n", "is not text"),
        ("#!/bin/sh\nyes\n", "more than 4194304 bytes"),
        ("#!/no/such/program\n", "No such file"),
        ("echo a\n", "its first line must be as #!/bin/sh"),
    ],
)
def test_a_script_that_prints_no_hosts_is_refused(tmp_path, script, problem):
    with pytest.raises(
        BootstrapError, match=rf"hosts\.sh prints no hosts: .*{problem}"
    ):
        discovery(tmp_path, script).first()


def test_a_script_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("collalgo.launch.discovery.CALL_SECONDS", 0.1)
    running = discovery(tmp_path, "#!/bin/sh\necho a\nexec sleep 1000\n")
    with pytest.raises(BootstrapError, match=r"it has not ended in 0\.1 s"):
        running.first()


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_a_host_that_is_tried_again_and_again_holds_no_descriptors(monkeypatch):
    monkeypatch.setattr(nodes, "FIRST_PAUSE", 0.0)
    before, started = len(os.listdir("/proc/self/fd")), []
    sinks, here = output.sinks(), Listener()

    def start(node):
        if len(started) > 10:
            raise StopRequested(signal.SIGTERM)
        started.append(node)
        assert len(os.listdir("/proc/self/fd")) < before + 20
        return NodeAgent(node.host, remote_shell(), sinks, here.endpoint(""), None)

    hosts = nodes.Nodes(start, 1, 60)
    hosts.change([Host("nowhere", 1)])
    with pytest.raises(StopRequested):
        hosts.run()
    hosts.close()
    here.close()
