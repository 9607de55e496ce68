"""``collalgo run -H ... --min`` and ``--discover``: hosts may fail, join and leave.

The launcher holds the store of the rendezvous; each host has an agent, which
restarts the ranks there.
"""

import secrets
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

from collalgo.base.environment import MEMBER, MEMBERS, RENDEZVOUS, SECRET
from collalgo.bootstrap.interfaces import in_url
from collalgo.bootstrap.launcher_variables import RESTART_COUNT
from collalgo.bootstrap.store.at_url import store_place
from collalgo.bootstrap.store.job_end import close_job, last_members
from collalgo.bootstrap.store.server import Server
from collalgo.launch import environment, output
from collalgo.launch.agent import AgentJob
from collalgo.launch.agent_group import agent_job
from collalgo.launch.discovery import Discovery
from collalgo.launch.hosts import Host, RankPosition, assign_ranks
from collalgo.launch.network import Endpoint, Listener
from collalgo.launch.node_agent import NodeAgent
from collalgo.launch.nodes import Node, Nodes
from collalgo.launch.options import MOST_MEMBERS, RESTARTS, LaunchOptions
from collalgo.launch.output import Sinks
from collalgo.launch.placement import Placement
from collalgo.launch.remote_shell import RemoteShell, remote_shell
from collalgo.launch.restarting import of_node
from collalgo.launch.signals import signals_forwarded, signals_raise
from collalgo.launch.ssh import SshLaunch
from collalgo.launch.supervision import run_to_end


@dataclass(frozen=True)
class ElasticLaunch:
    """The plan to run a command on hosts that may fail, join and leave.

    Attributes
    ----------
    options : LaunchOptions
        The command, and how to start it.
    hosts : list of Host
        The hosts with the numbers of their ranks; empty if a script prints them.
    """

    options: LaunchOptions
    hosts: list[Host] = field(default_factory=list)

    @classmethod
    def of_hosts(
        cls, options: LaunchOptions, hosts: list[Host], size: int
    ) -> "ElasticLaunch":
        """The plan of a job of ``size`` ranks in the slots of some hosts."""
        ranks = assign_ranks(hosts, size)
        return cls(options, [Host(h.name, len(at)) for h, at in ranks.items()])

    def run(self) -> int:
        """Run the job to its end: its exit code."""
        with ExitStack() as held:
            held.enter_context(signals_raise())  # also while the job is closed
            job = ElasticJob(self, held)
            agents = job.nodes.agents
            held.enter_context(signals_forwarded(agents.send_signal, stops=True))
            return run_to_end(job.run, lambda _number: agents.stop(), job.sinks)

    def placement(self) -> Placement:
        """Where its ranks would run; nothing is started, and no host is asked."""
        hosts = self.hosts or self._discovered()
        return SshLaunch(self.options, assign_ranks(hosts, None)).placement()

    def discovery(self) -> Discovery | None:
        """The discovery script of the hosts, if any."""
        script = self.options.discover
        return None if script is None else Discovery(script, self.options.per_node or 1)

    def _discovered(self) -> list[Host]:
        """The hosts that a script printed last."""
        discovery = self.discovery()
        assert discovery is not None
        return discovery.first()

    @property
    def members(self) -> tuple[int, int]:
        """The number of ranks, at least and at most."""
        options = self.options
        if options.discover is None:
            size = sum(host.slots for host in self.hosts)
            return options.least or size, size
        slots = options.per_node or 1
        nodes = options.nodes or (1, MOST_MEMBERS // slots)
        return nodes[0] * slots, min(nodes[1] * slots, MOST_MEMBERS)


class ElasticJob:
    """A job while it runs: its store, and its hosts.

    Parameters
    ----------
    plan
        The plan.
    held
        Takes what is to be released in the end.
    """

    def __init__(self, plan: ElasticLaunch, held: ExitStack):
        self._options, self._hosts = plan.options, plan.hosts
        options = plan.options
        self.sinks: Sinks = output.sinks(options.logs, timestamp=options.timestamp)
        self._shell: RemoteShell = remote_shell(options.ssh)
        secret = secrets.token_bytes(32)
        server = held.enter_context(closing(Server(secret)))
        listener = held.enter_context(closing(Listener()))
        self._port: int = server.port
        self._here: Endpoint = listener.endpoint("of the launcher")
        self._common = {
            **environment.of_any_job(),
            MEMBERS.name: ":".join(map(str, plan.members)),
            SECRET.name: secret.hex(),
        }
        times = plan.members[0], options.start_timeout
        close = partial(close_job, "127.0.0.1", server.port, secret)
        store = store_place(f"collalgo://127.0.0.1:{server.port}", "job", secret=secret)
        ends = close, lambda: last_members(store) is not None
        self.nodes = Nodes(self._start, *times, plan.discovery(), *ends)
        held.callback(self.nodes.close)

    def run(self) -> int:
        """Run the ranks on all hosts: the exit code of the job."""
        self.nodes.change(self._hosts)
        return self.nodes.run()

    def _start(self, node: Node) -> NodeAgent:
        """Start the agent of a host."""
        job_of = partial(self._job, node)
        return NodeAgent(node.host, self._shell, self.sinks, self._here, job_of)

    def _job(self, node: Node, agent: NodeAgent, reached: list[str]) -> AgentJob:
        """What a host has to run, from the addresses at which it reaches this one."""
        by_name = {each.name: each.address for each in self._here.interfaces}
        wanted = [by_name.get(name) for name in self._options.interfaces]
        address = next((each for each in wanted if each in reached), reached[0])
        options, starts = self._options, node.starts
        node.starts += 1
        every = {
            **self._common,
            RENDEZVOUS.name: f"collalgo://{in_url(str(address))}:{self._port}",
            RESTART_COUNT: str(starts),
        }
        ranks = {e.rank: self._variables(e, node) for e in self._positions(node)}
        restricted = agent.network(list(options.interfaces)).restricted
        restarts = RESTARTS if options.restarts is None else options.restarts
        how = options, node.host, every, ranks, restricted
        return agent_job(*how, restarts=restarts)

    def _positions(self, node: Node) -> list[RankPosition]:
        """The ranks of a host; how many the job has is known where hosts are named."""
        size, count = sum(host.slots for host in self._hosts), node.host.slots
        numbers = range(count)
        return [
            RankPosition(node.first + local, size, local, count, None, None)
            for local in numbers
        ]

    def _variables(self, position: RankPosition, node: Node) -> dict[str, str]:
        """The variables of a rank, with its name among the members."""
        found = environment.of_rank(position, self._options.dialect)
        if self._options.discover is not None:
            return of_node(found, f"{node.host.name}.{position.local_rank}")
        return {**found, MEMBER.name: f"rank {position.rank}"}
