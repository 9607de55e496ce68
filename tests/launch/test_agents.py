"""The agents of a job: how they start, what they are sent, and wrong answers."""

import json
import os
import signal
import time
from contextlib import closing
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from collalgo.base.environment import HOST, VARIABLES
from collalgo.errors import BootstrapError
from collalgo.launch import agent, agents, environment, output
from collalgo.launch.agent import GREETING, AgentJob, Greeting
from collalgo.launch.agent_group import AgentGroup
from collalgo.launch.agents import AgentStart, try_hosts
from collalgo.launch.delegate import DelegatedLaunch
from collalgo.launch.hosts import Host, assign_ranks
from collalgo.launch.options import LaunchOptions
from collalgo.launch.remote_agent import RemoteAgent, reached_by
from collalgo.launch.remote_shell import RemoteShell
from collalgo.launch.ssh import SshLaunch

#: The greeting of an agent without interfaces, as a word of a shell.
WORD = f"'{GREETING}{json.dumps(asdict(Greeting(1, '', [], [], '', 1, 1, [])))}'"

HOSTS = [Host("a", 1)]


def shell(script):
    """A remote shell for a script, of which $0 is the host."""
    return RemoteShell(("sh", "-c", script), "TEST")


@pytest.fixture
def group():
    with closing(AgentGroup()) as group:
        yield group


def test_a_greeting_that_comes_with_another_line_is_read(group):
    script = f"printf 'a banner\\n%s\\n' {WORD}; cat"
    AgentStart(HOSTS, shell(script), output.sinks(), group).run(20)
    assert group.all[0].greeting.free_port == 1


def test_a_host_that_prints_lines_without_end_is_late(group):
    start = AgentStart(HOSTS, shell("yes"), output.sinks(), group)
    with pytest.raises(BootstrapError, match=r"it did not start within 0\.1 s"):
        start.run(0.1)


@pytest.mark.parametrize("line", ["a word", "[[], []]"])
def test_a_wrong_answer_is_one_sentence(group, line):
    made = RemoteAgent(HOSTS[0], shell(f"echo '{line}'; cat"), output.sinks())
    group.start(lambda: made)
    with pytest.raises(BootstrapError, match=r"agent of host a sent .*, not an answer"):
        reached_by({made: 1}, time.monotonic() + 20)


def test_signals_while_the_hosts_start_are_not_for_their_agents(monkeypatch, tmp_path):
    """As those of a terminal that is resized, which the shell of host b sends here."""
    script = tmp_path / "shell"
    script.write_text(
        "#!/bin/sh\n"
        '[ "$1" = b ] && { kill -WINCH $PPID; kill -USR1 $PPID; }\n'
        'shift; exec sh -c "$*"\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("COLLALGO_RSH", str(script))
    hosts = [*HOSTS, Host("b", 1)]
    options = LaunchOptions(["true"], hosts=hosts)
    assert SshLaunch(options, assign_ranks(hosts, 2)).run() == 0


def test_a_host_that_stays_when_it_was_tried_is_killed(monkeypatch):
    options = SimpleNamespace(ssh=None, start_timeout=20.0)

    def network(usable, _options):
        assert len(usable) == 1
        options.start_timeout = 0.01

    monkeypatch.setattr(agents, "_network", network)
    monkeypatch.setattr(
        agents, "remote_shell", lambda _: shell(f"echo {WORD}; exec sleep 60")
    )
    assert try_hosts(HOSTS, options, output.sinks()) == ({}, None)


def test_a_host_without_the_working_directory_says_so(capfd):
    job = AgentJob(["true"], "/no/such/folder", {HOST.name: "a"}, {3: {}})
    assert agent._run(job, b"") == 1
    assert (
        "host a cannot start ranks: the working directory /no/such/folder cannot be "
        "used there (No such file or directory)"
    ) in capfd.readouterr().err


def test_a_signal_before_the_ranks_does_not_end_the_agent(monkeypatch):
    def plan(_job):
        signal.raise_signal(signal.SIGUSR1)
        raise BootstrapError("there are too few cores")

    monkeypatch.setattr(AgentJob, "plan", plan)
    assert agent._run(AgentJob(["true"], ".", {}, {0: {}}), b"") == 1


def test_ranks_do_not_inherit_the_job_of_their_launcher(monkeypatch):
    names = {each.name for each in VARIABLES if each.internal}
    names |= {"TORCHELASTIC_RESTART_COUNT", "PMI_FD", "PMI_RANK", "PMIX_RANK"}
    names |= {"PMIX_SERVER_URI41", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}
    for name in names:
        monkeypatch.setenv(name, "7")
    (rank,) = AgentJob(["true"], ".", {}, {0: {}}).plan().specs
    for given in (environment.inherited(), environment.forwarded(), rank.environment):
        assert not names & given.keys()
    monkeypatch.setattr(DelegatedLaunch, "_run_stamped", lambda _: 0)
    options = LaunchOptions(["true"], timestamp=True)
    DelegatedLaunch(["true"], {}, {}, options).run()
    assert not names & os.environ.keys()
