"""``collalgo run`` on several hosts: an agent on each, by ssh."""

import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from collalgo.base.environment import SECRET, STORE
from collalgo.bootstrap.store.server import Server
from collalgo.launch import environment, output
from collalgo.launch.agent_group import AgentGroup, agent_job
from collalgo.launch.agents import JobNetwork, Shares, start_agents
from collalgo.launch.child import Deadline, as_completed
from collalgo.launch.hosts import Host, RankPosition
from collalgo.launch.messages import report
from collalgo.launch.nics import shown
from collalgo.launch.options import LaunchOptions
from collalgo.launch.placement import NO_NICS, Placement, planned_ranks
from collalgo.launch.process import exit_code
from collalgo.launch.remote_agent import AGENT, RemoteAgent
from collalgo.launch.remote_shell import remote_shell
from collalgo.launch.signals import signals_forwarded, signals_raise
from collalgo.launch.supervision import (
    OF_COMMAND,
    PEER_FAILED,
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
        with SshJob(self) as job:
            return job.run()

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
        nics = (
            ",".join(options.interfaces)
            or "a share of those that reach the other hosts"
        )
        if len(self.positions) == 1:
            nics = NO_NICS
        ranks = planned_ranks(self.positions, options.binding, nics)
        return Placement(list(ranks), commands)


class SshJob:
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
        self._agents = AgentGroup[RemoteAgent]()

    def __enter__(self) -> "SshJob":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def run(self) -> int:
        """Run the job until it ends or signals stop it: its exit code.

        Raises
        ------
        BootstrapError
            If a host cannot be used.
        """
        agents = self._agents
        with (
            signals_raise(),
            signals_forwarded(agents.send_signal, stops=True),
            closing(agents),
        ):
            return run_to_end(self._launch, lambda _number: agents.stop(), self._sinks)

    def _launch(self) -> int:
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
        return JobNetwork(self._agents.all, self._options)

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
        for agent in self._agents.all:
            host = agent.host
            ranks = {
                position.rank: environment.of_rank(position, self._options.dialect)
                for position in self._positions[host]
            }
            restricted = network.of_host[host].restricted
            how = self._options, host, common, ranks, restricted
            agent.send(agent_job(*how, shares=shares[host]))

    def _common(self, network: JobNetwork) -> dict[str, str]:
        """The variables of all ranks."""
        first = self._agents.all[0]
        master = network.of_host[first.host].working[0].address
        return {
            **environment.of_job(master, first.greeting.free_port),
            **self.variables,
            STORE.name: f"{','.join(network.launcher)}:{self.server.port}",
        }

    def _supervise(self) -> int:
        """Forward the output until all agents have ended, or one has failed."""
        failed: list[RemoteAgent] = []
        deadline = Deadline()
        for ended in as_completed(self._agents.all, deadline):
            if ended.returncode:
                deadline.at_most(self._supervision.settle + 1.0)
                failed.append(ended)
        if not failed:
            return 0
        self._agents.stop()
        failed.sort(key=_is_of_victims)
        self._report_loss(failed[0])
        return exit_code(failed[0].returncode or 0)

    def _report_loss(self, first: RemoteAgent) -> None:
        """Report a failure that the ranks of the host could not report."""
        if first.has_lost_host():
            line, code = shlex.join(first.command), first.returncode
            reason = f"host {first.host.name} is lost: {line} ended with {code}"
            ranks = self._positions[first.host]
            lost = [RankFailure(each.rank, reason) for each in ranks]
            self._supervision.tell(lost, False)


def _is_of_victims(agent: RemoteAgent) -> bool:
    """Whether only ranks of other hosts have failed by themselves."""
    return agent.returncode == PEER_FAILED and not agent.output.has_farewell
