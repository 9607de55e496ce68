"""Agents of an elastic job that end late, talk nonsense, or are dropped for a while."""

import os
import signal
from contextlib import closing

import pytest

from collalgo.launch import nodes, output
from collalgo.launch.agent import GREETING
from collalgo.launch.hosts import Host
from collalgo.launch.network import Listener
from collalgo.launch.node_agent import NodeAgent
from collalgo.launch.remote_shell import RemoteShell


@pytest.fixture
def agent_of():
    """Start the agent of a host by a script of a shell, of which $0 is the host."""
    sinks, here, made = output.sinks(), Listener(), []

    def start(script, host="a"):
        shell = RemoteShell(("sh", "-c", script), "TEST")
        point = here.endpoint("")
        made.append(NodeAgent(Host(host, 1), shell, sinks, point, None))
        return made[-1]

    yield start
    here.close()
    for agent in made:
        if not agent.streams[0].pipe.closed:
            agent.close()


def test_an_agent_that_has_ended_is_killed_and_not_reaped(agent_of):
    agent = agent_of("exit 7")
    os.waitid(os.P_PID, agent.process.pid, os.WEXITED | os.WNOWAIT)
    agent.give_up("it is late")
    agent.drain()
    assert agent.returncode == 7


GOOD = '{"port": 1, "word": "", "interfaces": [], "bridges": [], "reached_by": "", \
"free_port": 1, "cores": 1}'


@pytest.mark.parametrize(
    "lines",
    [
        ('{"port": 1}',),
        ("7",),
        ("[",),
        (GOOD.replace('"interfaces": []', '"interfaces": 7'),),
        (GOOD, "7"),
        (GOOD, "[7]"),
        (GOOD, "[[7]]"),
        (GOOD, "[]"),
        (GOOD, "{"),
    ],
)
def test_a_host_whose_agent_talks_nonsense_is_given_up(
    agent_of, capfd, monkeypatch, lines
):
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.05)
    text = GREETING + "\n".join(lines)
    hosts = nodes.Nodes(lambda _node: agent_of(f"echo '{text}'; sleep 60"), 1, 0.3)
    hosts.change([Host("a", 1)])
    assert hosts.run() == 128 + signal.SIGKILL
    hosts.close()
    assert "not an answer; it is tried again in 1 s" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("sh", "-c", "yes"), "did not start within 0.2 s"),
        (
            ("/no/such/shell",),
            "cannot be used: /no/such/shell cannot be started (No such file or "
            "directory)",
        ),
    ],
)
def test_a_host_that_never_starts_is_given_up(capfd, monkeypatch, words, problem):
    """Also if its shell prints lines without end, or is no program."""
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.05)
    sinks, here = output.sinks(), Listener()

    def start(node):
        shell = RemoteShell(words, "TEST")
        return NodeAgent(node.host, shell, sinks, here.endpoint(""), None)

    with closing(here), closing(nodes.Nodes(start, 1, 0.2)) as hosts:
        hosts.change([Host("a", 1)])
        assert hosts.run() != 0
    told = capfd.readouterr().err
    assert f"host a {problem} (fewer than 1 rank left)" in told


class Script:
    """Stands for a script that tells other hosts at each look."""

    problem = ""

    def __init__(self, *told):
        self.told = list(told)

    def look(self):
        return self.told.pop(0) if self.told else None

    def seconds(self):
        return 0.01

    def close(self):
        pass


def test_a_host_that_is_dropped_and_told_again_at_once_has_not_failed(agent_of):
    a, started = Host("a", 1), []

    def start(node):
        started.append((node.failures, node.is_excluded))
        agent = agent_of("cat; sleep 0.3; exit 143" if len(started) == 1 else "exit 0")
        agent.has_job, agent.output.is_answering = True, False
        return agent

    hosts = nodes.Nodes(start, 1, 30, Script([a], [], [a]))
    assert hosts.run() == 0
    hosts.close()
    assert started == [(0, False)] * 2


def test_hosts_that_work_after_the_end_of_others_are_reported_and_not_killed(
    agent_of, capfd, monkeypatch
):
    monkeypatch.setattr(nodes, "REPORT_SECONDS", 0.2)
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.05)

    def start(node):
        agent = agent_of('[ "$0" = a ] || { sleep 1; exit 5; }', node.host.name)
        agent.has_job, agent.output.is_answering = True, False
        return agent

    closed = []
    hosts = nodes.Nodes(start, 3, 30, close=closed.append)
    hosts.change([Host(name, 1) for name in "abc"])
    assert hosts.run() == 5
    assert closed == ["others ended, 2 of 3 ranks remain"]
    hosts.close()
    told = capfd.readouterr().err
    assert "waiting for b, c, which still run after another host has ended" in told


def test_a_host_that_fails_after_the_end_of_the_job_is_not_tried_again(agent_of):
    started = []

    def start(node):
        started.append(node.host.name)
        agent = agent_of('[ "$0" = a ] && exit 5; sleep 1', node.host.name)
        agent.has_job, agent.output.is_answering = True, False
        return agent

    hosts = nodes.Nodes(start, 2, 30, is_closed=lambda: True)
    hosts.change([Host(name, 1) for name in "ab"])
    assert hosts.run() == 5
    hosts.close()
    assert started == ["a", "b"]


@pytest.mark.parametrize("greets", [False, True])
def test_the_failure_of_an_agent_is_told_without_reaping_it(agent_of, greets):
    """Also if a process that it has left keeps its output open."""
    agent = agent_of("echo why >&2; sleep 30 & exit 3")
    os.waitid(os.P_PID, agent.process.pid, os.WEXITED | os.WNOWAIT)
    if greets:
        agent.greeting = object()
    assert "\n  why" in agent.failure()
    end = os.waitid(os.P_PID, agent.process.pid, os.WEXITED | os.WNOWAIT)
    assert end.si_status == 3
