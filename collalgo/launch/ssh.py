"""``collalgo run`` on several hosts: an agent on each, by ssh."""

import secrets
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.store.server import Server
from collalgo.launch import environment, output
from collalgo.launch.agent import NO_JOB, AgentJob
from collalgo.launch.child import Deadline, as_completed
from collalgo.launch.hosts import Host, RankPosition
from collalgo.launch.local import (
    PEER_FAILED,
    SETTLE_SECONDS,
    STOP_SECONDS,
    run_to_end,
)
from collalgo.launch.output import Sinks
from collalgo.launch.process import exit_code
from collalgo.launch.remote_agent import START_SECONDS, RemoteAgent
from collalgo.launch.signals import signals_forwarded, signals_raise


@dataclass(frozen=True)
class SshLaunch:
    """The plan to run a command on ranks of several hosts.

    Attributes
    ----------
    command : sequence of str
        The command line of each rank.
    positions : mapping
        The ranks of each host.
    logs : Path or None
        Folder for a file with the output of each rank.
    """

    command: Sequence[str]
    positions: Mapping[Host, Sequence[RankPosition]]
    logs: Path | None = None

    def run(self) -> int:
        """Run the job to its end: its exit code."""
        sinks = output.sinks(self.logs)
        secret = secrets.token_bytes(32)
        server = Server(secret)
        agents: list[RemoteAgent] = []
        with signals_raise(), signals_forwarded(partial(_send, agents), stops=True):
            try:
                return run_to_end(
                    partial(self._run, agents, sinks, server.port, secret),
                    lambda _number: _stop(agents),
                    sinks,
                )
            except OSError as error:
                output.report(f"host {len(agents)} cannot be reached: {error}")
                return 1
            finally:
                for agent in agents:
                    agent.close()
                server.close()

    def _run(
        self, agents: list[RemoteAgent], sinks: Sinks, port: int, secret: bytes
    ) -> int:
        """Start the agents, into the list, and their ranks, and supervise them."""
        agents.extend(RemoteAgent(host, sinks) for host in self.positions)
        self._start_ranks(agents, port, secret)
        return _supervise(agents)

    def _start_ranks(
        self, agents: Sequence[RemoteAgent], port: int, secret: bytes
    ) -> None:
        """Send each agent its ranks, once all agents have started."""
        deadline = time.monotonic() + START_SECONDS
        for agent in agents:
            agent.wait_ready(deadline)
        size = sum(map(len, self.positions.values()))
        common = {
            **environment.forwarded(),
            **environment.of_job(size, agents[0].address, agents[0].free_port),
            "COLLALGO_STORE": f"{','.join(addresses(loopback=True))}:{port}",
            "COLLALGO_SECRET": secret.hex(),
        }
        for agent in agents:
            ranks = {p.rank: environment.of_rank(p) for p in self.positions[agent.host]}
            shared = {**common, "COLLALGO_HOST": agent.host.name}
            agent.send(AgentJob(list(self.command), str(Path.cwd()), shared, ranks))


def _send(agents: Sequence[RemoteAgent], number: int) -> None:
    """Send a signal to all ranks; SIGSTOP is not for their agents."""
    for agent in agents:
        agent.send_signal(signal.SIGTSTP if number == signal.SIGSTOP else number)


def _supervise(agents: list[RemoteAgent]) -> int:
    """Forward the output until all agents have ended, or one has failed."""
    failed: list[RemoteAgent] = []
    deadline = Deadline()
    for ended in as_completed(agents, deadline):
        if ended.returncode:
            deadline.at_most(SETTLE_SECONDS + 1.0)
            failed.append(ended)
    if not failed:
        return 0
    _stop(agents)
    first = next((a for a in failed if a.returncode != PEER_FAILED), failed[0])
    assert first.returncode is not None
    _report(first, first.returncode)
    return exit_code(first.returncode)


def _report(first: RemoteAgent, code: int) -> None:
    """Say what has failed, if the ranks of the host cannot have said it."""
    if code == NO_JOB:
        output.report(
            f"host {first.host.name} got nothing to run: {shlex.join(first.command)} "
            "passes on no standard input"
        )
    elif code in (255, PEER_FAILED) or code < 0:
        output.report(
            f"host {first.host.name} is lost: {shlex.join(first.command)} ended with "
            f"{code}"
        )


def _stop(agents: list[RemoteAgent]) -> None:
    """Make all agents stop their ranks, and forward the output meanwhile."""
    for agent in agents:
        if not agent.ended:
            agent.request_stop()
    for _ in as_completed(agents, Deadline(3 * STOP_SECONDS)):
        pass
