"""The agents of all hosts of a job: their start, and their tests of the network."""

import selectors
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from collalgo.base.environment import TOPOLOGY
from collalgo.errors import BootstrapError
from collalgo.launch.agent_group import AgentGroup
from collalgo.launch.hosts import Host
from collalgo.launch.network import (
    Answers,
    Endpoint,
    HostNetwork,
    Listener,
    networks,
    targets,
)
from collalgo.launch.nics import HostNics, nics_of_ranks
from collalgo.launch.options import LaunchOptions
from collalgo.launch.output import Sinks
from collalgo.launch.remote_agent import RemoteAgent, reached_by
from collalgo.launch.remote_shell import RemoteShell, remote_shell
from collalgo.launch.signals import clear_wakeup, register_wakeup

#: The interfaces that the engine uses for each rank of each host.
Shares: TypeAlias = Mapping[Host, list[list[str]]]

#: The most remote shells that start at once.
AT_ONCE = 64

#: Seconds in which further hosts may fail, so that all are named.
MORE_SECONDS = 1.0

#: The most hosts of which the failures are shown.
SHOWN_HOSTS = 5


class AgentStart:
    """Starts the agents of some hosts, some of them at once.

    Parameters
    ----------
    hosts
        The hosts.
    shell
        The remote shell.
    sinks
        Destinations of output.
    agents
        The group that each agent is started in, so that the caller can close it.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        shell: RemoteShell,
        sinks: Sinks,
        agents: AgentGroup[RemoteAgent],
    ):
        self._waiting = list(reversed(hosts))
        self._shell, self._sinks, self._agents = shell, sinks, agents
        self._selector = selectors.DefaultSelector()
        self._starting: set[RemoteAgent] = set()
        self._failures: list[str] = []

    def run(self, seconds: float) -> None:
        """Start all agents.

        Raises
        ------
        BootstrapError
            If some do not start in time: it has the errors of each.
        """
        deadline = time.monotonic() + seconds
        with self._selector:
            register_wakeup(self._selector)
            while self._starting or (self._waiting and not self._failures):
                self._begin()
                ready = self._selector.select(max(deadline - time.monotonic(), 0))
                self._take_greetings([key.data for key, _ in ready])
                if self._starting and time.monotonic() >= deadline:
                    break
                if self._failures:
                    deadline = min(deadline, time.monotonic() + MORE_SECONDS)
        if self._failures or self._starting:
            raise BootstrapError(self._failure(seconds))

    def _begin(self) -> None:
        """Start agents as long as there is room for them."""
        while self._waiting and len(self._starting) < AT_ONCE and not self._failures:
            make = partial(RemoteAgent, self._waiting.pop(), self._shell, self._sinks)
            try:
                agent = self._agents.start(make)
            except BootstrapError as error:
                self._failures.append(str(error))
                break
            self._starting.add(agent)
            self._selector.register(agent.streams[0].pipe, selectors.EVENT_READ, agent)

    def _take_greetings(self, ready: Sequence[object]) -> None:
        """Take the greetings that have arrived."""
        clear_wakeup()
        for agent in ready:
            if not isinstance(agent, RemoteAgent):
                continue
            try:
                if not any(map(agent.take_greeting, agent.lines())):
                    continue
            except EOFError:
                self._failures.append(agent.failure())
            except BootstrapError as error:
                self._failures.append(str(error))
            self._starting.discard(agent)
            self._selector.unregister(agent.streams[0].pipe)

    def _failure(self, seconds: float) -> str:
        """The errors of the hosts that have failed, or else of those that are late."""
        failures = self._failures or [
            f"{agent.failure()}\n  it did not start within {seconds:g} s; a slow host "
            "needs a longer --start-timeout"
            for agent in sorted(self._starting, key=lambda each: each.host.name)
        ]
        more = len(failures) - SHOWN_HOSTS
        further = [f"{more} more hosts cannot be used"] if more > 0 else []
        return "\n".join([*failures[:SHOWN_HOSTS], *further])


def start_agents(
    hosts: Sequence[Host],
    options: LaunchOptions,
    sinks: Sinks,
    agents: AgentGroup[RemoteAgent],
) -> None:
    """Start the agents of some hosts, into the group, in the order of the hosts.

    Raises
    ------
    BootstrapError
        If some do not start in time: it has the errors of each.
    """
    shell = remote_shell(options.ssh)
    AgentStart(hosts, shell, sinks, agents).run(options.start_timeout)
    agents.all.sort(key=lambda agent: hosts.index(agent.host))


class JobNetwork:
    """The addresses by which the hosts of a job and its launcher reach each other.

    Attributes
    ----------
    of_host : mapping
        The network of each host.
    launcher : list of str
        The addresses at which the hosts reach the launcher.

    Raises
    ------
    BootstrapError
        If a host is not reached by others, or does not reach the launcher.
    """

    def __init__(self, agents: Sequence[RemoteAgent], options: LaunchOptions):
        self._agents, self._nics = agents, options.interfaces
        listener = Listener()
        try:
            self._own = listener.endpoint("of the launcher")
            tried = self._try_all(time.monotonic() + options.start_timeout)
        finally:
            listener.close()
        self.launcher = self._launcher(tried, options.interfaces)
        self.of_host: Mapping[Host, HostNetwork] = {
            agent.host: found
            for agent, found in zip(
                agents, self._hosts(tried, options.interfaces), strict=True
            )
        }

    def shares(
        self, positions: Mapping[Host, Sequence[object]] | None = None
    ) -> Shares:
        """The interfaces that the engine uses for each rank; empty if it chooses.

        Without positions all slots have ranks.
        """
        ranks = {
            agent.host: len(positions[agent.host]) if positions else agent.host.slots
            for agent in self._agents
        }
        hosts = [
            HostNics(self.of_host[a.host], a.greeting.nics(), ranks[a.host])
            for a in self._agents
        ]
        file: Path | None = TOPOLOGY.value()
        found = nics_of_ranks(hosts, file, named=bool(self._nics))
        return {a.host: of for a, of in zip(self._agents, found, strict=True)}

    def _try_all(self, deadline: float) -> Mapping[RemoteAgent, list[list[str]]]:
        """What each agent reaches: of the launcher, then of each of its targets."""
        points = [agent.greeting.endpoint(agent.host.name) for agent in self._agents]
        self._points: Sequence[Endpoint] = points
        counts = {}
        for number, agent in enumerate(self._agents):
            others = [points[other] for other in targets(number, len(points))]
            hosts = [
                [each.port, each.word, [one.address for one in each.interfaces]]
                for each in (self._own, *others)
            ]
            agent.ask("try", {"hosts": hosts})
            counts[agent] = len(hosts)
        return reached_by(counts, deadline)

    def _hosts(
        self, tried: Mapping[RemoteAgent, list[list[str]]], nics: Sequence[str]
    ) -> list[HostNetwork]:
        """The networks of the hosts; of one alone, all its interfaces."""
        size = len(self._agents)
        reached: list[list[list[str]]] = [[] for _ in self._agents]
        for number, agent in enumerate(self._agents):
            for other, at in zip(targets(number, size), tried[agent][1:], strict=True):
                reached[other].append(at)
        if size == 1:
            reached = [[[one.address for one in self._points[0].interfaces]]]
        found = [
            Answers(Counter(chain(*at)), len(at), agent.greeting.reached_by)
            for agent, at in zip(self._agents, reached, strict=True)
        ]
        return list(networks(self._points, found, nics))

    def _launcher(
        self, tried: Mapping[RemoteAgent, list[list[str]]], nics: Sequence[str]
    ) -> list[str]:
        """The addresses of the launcher that all hosts reach; if none, some reach."""
        at = [set(tried[agent][0]) for agent in self._agents]
        for agent, found in zip(self._agents, at, strict=True):
            if not found:
                own = ", ".join(one.address for one in self._own.outward)
                raise BootstrapError(
                    f"host {agent.host.name} does not reach this launcher at {own}; "
                    "check the firewall of this host"
                )
        times = Counter(address for found in at for address in found)
        every = [each for each in self._own.interfaces if times[each.address]]
        chosen = [each for each in every if each.name in nics] or every
        by_all = [e for e in chosen if times[e.address] == len(self._agents)]
        return sorted(
            (each.address for each in by_all or chosen), key=lambda each: -times[each]
        )


def try_hosts(
    hosts: Sequence[Host], options: LaunchOptions, sinks: Sinks
) -> tuple[dict[str, str], "JobNetwork | BootstrapError | None"]:
    """Start an agent on each host, and stop it again.

    Returns
    -------
    tuple
        The errors of unusable hosts, by their names, and the network of the others.
    """
    shell, problems = remote_shell(options.ssh), {}
    with closing(AgentGroup[RemoteAgent]()) as agents:
        for host in hosts:
            try:
                AgentStart([host], shell, sinks, agents).run(options.start_timeout)
            except BootstrapError as error:
                problems[host.name] = str(error)
        usable = [agent for agent in agents.all if agent.host.name not in problems]
        network = _network(usable, options)
        for agent in usable:
            agent.request_stop()
            agent.await_end(options.start_timeout)
    return problems, network


def _network(
    agents: Sequence[RemoteAgent], options: LaunchOptions
) -> "JobNetwork | BootstrapError | None":
    """The network of some agents, if there are any, or the reason why it fails."""
    if not agents:
        return None
    try:
        return JobNetwork(agents, options)
    except BootstrapError as error:
        return error
