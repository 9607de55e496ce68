"""``collalgo run`` on several hosts: an agent on each, by ssh."""

import secrets
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collalgo.base.environment import HOST, NICS, SECRET, STORE
from collalgo.bootstrap.store.server import Server
from collalgo.launch import environment, output
from collalgo.launch.agent import AgentJob
from collalgo.launch.agents import JobNetwork, Shares, start_agents
from collalgo.launch.child import Deadline, as_completed
from collalgo.launch.hosts import Host, RankPosition
from collalgo.launch.messages import report
from collalgo.launch.nics import shown
from collalgo.launch.options import LaunchOptions
from collalgo.launch.placement import Placement, planned_ranks
from collalgo.launch.process import exit_code
from collalgo.launch.remote_agent import AGENT, RemoteAgent
from collalgo.launch.remote_shell import remote_shell
from collalgo.launch.signals import signals_forwarded, signals_raise
from collalgo.launch.supervision import (
    OF_COMMAND,
    PEER_FAILED,
    STOP_SECONDS,
    RankFailure,
    Supervision,
    run_to_end,
)


@dataclass(frozen=True)
class SshLaunch:
    """The plan to run a command on ranks of several hosts.

    Attributes
    ----------
    options : LaunchOptions
        The command, and how to start it.
    positions : mapping
        The ranks of each host.
    """

    options: LaunchOptions
    positions: Mapping[Host, Sequence[RankPosition]]

    def run(self) -> int:
        """Run the job to its end: its exit code."""
        with Job(self) as job:
            return job.run(job.launch)

    def placement(self) -> Placement:
        """The placement of the ranks, where it is known without their hosts.

        Raises
        ------
        BootstrapError
            If there is no remote shell, or the ranks of this host cannot be bound.
        """
        options, shell = self.options, remote_shell(self.options.ssh)
        agents = {host.name: shell.line(host.name, AGENT) for host in self.positions}
        commands = [f"{name}: {shlex.join(line)}" for name, line in agents.items()]
        commands.append(f"each rank: {shlex.join(options.command)}")
        nics = ",".join(options.nics) or "a share of those that reach the other hosts"
        ranks = planned_ranks(self.positions, options.binding, nics)
        return Placement(list(ranks), commands)


class Job:
    """A job of several hosts while it runs: its store, and the agents of its hosts.

    Attributes
    ----------
    server : Server
        The store of the job.
    variables : dict
        The address of the store on this host, and its secret.
    """

    def __init__(self, plan: SshLaunch, supervision: Supervision = OF_COMMAND):
        self._options, self._positions = plan.options, plan.positions
        self._supervision = supervision
        self._sinks = output.sinks(
            self._options.logs,
            timestamp=self._options.timestamp,
            by_python=supervision.by_python,
        )
        secret = secrets.token_bytes(32)
        self.server = Server(secret)
        self.variables = {
            STORE.name: f"127.0.0.1:{self.server.port}",
            SECRET.name: secret.hex(),
        }
        self._agents: list[RemoteAgent] = []

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._agents:
            agent.close()
        self.server.close()

    def run(self, work: Callable[[], int]) -> int:
        """Run the job until it ends or signals stop it: its exit code."""
        agents = self._agents
        with signals_raise(), signals_forwarded(partial(_send, agents), stops=True):
            try:
                return run_to_end(work, lambda _number: _stop(agents), self._sinks)
            except OSError as error:
                reason = f"host {len(agents)} cannot be reached: {error}"
                self._supervision.tell([RankFailure(0, reason)], False)
                return 1

    def launch(self) -> int:
        """Start the agents and their ranks, and supervise them."""
        network = self._start_agents()
        shares = network.shares(self._positions)
        self._say_network(network, shares)
        self._start_ranks(network, shares)
        return self._supervise()

    def _start_agents(self) -> JobNetwork:
        """Start the agents, and let them try the network between them."""
        hosts, begin = list(self._positions), time.monotonic()
        start_agents(hosts, self._options, self._sinks, self._agents)
        self._say(f"{len(hosts)} agents started in {time.monotonic() - begin:.2f} s")
        return JobNetwork(self._agents, self._options)

    def _say_network(self, network: JobNetwork, shares: Shares) -> None:
        """Tell the addresses and the NICs that are used."""
        for host, found in network.of_host.items():
            self._say(f"host {host.name} is reached by {found}")
        for host, every in shares.items():
            if nics := shown(every):
                self._say(f"the ranks of host {host.name} use {nics}")
        self._say(f"the launcher is reached at {', '.join(network.launcher)}")

    def _say(self, text: str) -> None:
        if self._options.verbose:
            report(text)

    def _start_ranks(self, network: JobNetwork, shares: Shares) -> None:
        """Send each agent its ranks."""
        common = self._common(network)
        for agent in self._agents:
            ranks = {
                position.rank: environment.of_rank(position, self._options.dialect)
                for position in self._positions[agent.host]
            }
            job = AgentJob(
                list(self._options.command),
                str(Path.cwd()),
                {**common, HOST.name: agent.host.name},
                ranks,
                self._options.binding.value,
                network.of_host[agent.host].restricted,
                shares[agent.host],
                self._options.is_function,
            )
            agent.send(job)

    def _common(self, network: JobNetwork) -> dict[str, str]:
        """The variables of all ranks."""
        first = self._agents[0]
        master = network.of_host[first.host].working[0].address
        nics = {NICS.name: ",".join(self._options.nics)} if self._options.nics else {}
        return {
            **environment.forwarded(),
            **environment.of_job(master, first.greeting.free_port),
            **self.variables,
            STORE.name: f"{','.join(network.launcher)}:{self.server.port}",
            **nics,
        }

    def _supervise(self) -> int:
        """Forward the output until all agents have ended, or one has failed."""
        agents = self._agents
        failed: list[RemoteAgent] = []
        deadline = Deadline()
        for ended in as_completed(agents, deadline):
            if ended.returncode:
                deadline.at_most(self._supervision.settle + 1.0)
                failed.append(ended)
        if not failed:
            return 0
        _stop(agents)
        failed.sort(key=lambda agent: agent.returncode == PEER_FAILED)
        self._report_loss(failed[0])
        return exit_code(failed[0].returncode or 0)

    def _report_loss(self, first: RemoteAgent) -> None:
        """Report a failure that the ranks of the host could not report."""
        code = first.returncode or 0
        if code in (255, PEER_FAILED) or code < 0:
            line = shlex.join(first.command)
            reason = f"host {first.host.name} is lost: {line} ended with {code}"
            ranks = self._positions[first.host]
            lost = [RankFailure(each.rank, reason) for each in ranks]
            self._supervision.tell(lost, False)


def _send(agents: Sequence[RemoteAgent], number: int) -> None:
    """Send a signal to all ranks; SIGSTOP is not for their agents."""
    for agent in agents:
        agent.send_signal(signal.SIGTSTP if number == signal.SIGSTOP else number)


def _stop(agents: list[RemoteAgent]) -> None:
    """Make all agents stop their ranks, and forward the output meanwhile."""
    for agent in agents:
        if not agent.ended:
            agent.request_stop()
    for _ in as_completed(agents, Deadline(3 * STOP_SECONDS)):
        pass
