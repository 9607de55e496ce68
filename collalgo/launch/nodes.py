"""The hosts of a job that continues when some of them fail, and that readmits them.

A host whose agent ends is tried again after a delay, which doubles each time. A host
that could not be reached is readmitted as soon as it can be; a host whose ranks have
failed repeatedly is left out for longer, and the job no longer waits for it.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from collalgo.base.units import counted
from collalgo.errors import BootstrapError
from collalgo.launch.agent_group import AgentGroup
from collalgo.launch.child import Deadline, as_completed, kill_children
from collalgo.launch.discovery import Discovery
from collalgo.launch.hosts import Host
from collalgo.launch.messages import report
from collalgo.launch.node_agent import NodeAgent
from collalgo.launch.process import exit_code

#: Seconds before a host is tried again: at first, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

#: Seconds before a host whose ranks have failed is used again, at first.
EXCLUSION = 60.0

#: Seconds of running after which the failures of a host are cleared.
STEADY = 60.0

#: Seconds between two reports of the hosts that still work when others have ended. They
#: are never killed: a last checkpoint may take any time, and only the user can detect a
#: remote shell that has not noticed the loss of its host.
REPORT_SECONDS = 600.0

#: Seconds between two checks of deadlines, at most and at least.
POLL_SECONDS, SHORTEST_POLL = 1.0, 0.01


@dataclass
class Node:
    """A host of the job.

    Attributes
    ----------
    host : Host
        The host.
    first : int
        The number of its first rank.
    agent : NodeAgent or None
        Its agent, while it runs.
    starts : int
        The number of times that its ranks were started.
    failures : int
        Failures in succession.
    due : float
        When it is to be started.
    is_excluded : bool
        Whether its ranks have failed, since it was last used.
    is_wanted : bool
        Whether it is still a host of the job.
    """

    host: Host
    first: int
    agent: NodeAgent | None = None
    starts: int = 0
    failures: int = 0
    due: float = 0.0
    is_excluded: bool = False
    is_wanted: bool = True

    @property
    def is_up(self) -> bool:
        """Whether its ranks run."""
        return self.agent is not None and self.agent.has_job

    def fail(self, agent: NodeAgent | None) -> float:
        """Note that its agent has failed: the seconds before it is tried again.

        Without an agent, it could not be started.
        """
        worked = agent is not None and agent.has_job
        failed = agent is not None and agent.returncode and not agent.has_lost_host()
        self.is_excluded = bool(worked and failed)
        if agent is not None and worked and time.monotonic() - agent.began > STEADY:
            self.failures = 0
        pause = EXCLUSION if self.is_excluded else FIRST_PAUSE
        pause *= 2.0 ** min(self.failures, 10)
        if not self.is_excluded:
            pause = min(pause, LONGEST_PAUSE)
        self.failures += 1
        self.due = time.monotonic() + pause
        return pause


class Nodes:
    """The hosts of a job while it runs.

    Parameters
    ----------
    start
        Starts the agent of a node.
    least
        The number of ranks with which the job goes on, at least.
    patience
        Seconds that the job may have fewer, while hosts may still come.
    discovery
        Returns the hosts; None if :meth:`change` sets them.
    close
        Closes the job with a reason, if too few ranks remain after the end of others.
    is_closed
        Whether the job is closed, so that no host that has failed can join it again.
    """

    def __init__(
        self,
        start: Callable[[Node], NodeAgent],
        least: int,
        patience: float,
        discovery: Discovery | None = None,
        close: Callable[[str], None] = lambda _: None,
        is_closed: Callable[[], bool] = lambda: False,
    ):
        self._start, self._least, self._patience = start, least, patience
        self._close: Callable[[str], None] | None = close
        self._is_closed = is_closed
        self._discovery = discovery
        self._nodes: dict[Host, Node] = {}
        self.agents = AgentGroup[NodeAgent]()
        self._ranks = 0
        self._enough_at = time.monotonic()
        self._has_finished, self._next_report = False, Deadline()
        self._failed: tuple[str, int] | None = None
        self._late = 0

    def change(self, hosts: Sequence[Host]) -> None:
        """Set the hosts of the job."""
        for host in hosts:
            if host not in self._nodes:
                self._nodes[host] = Node(host, self._ranks)
                self._ranks += host.slots
        for host, node in self._nodes.items():
            is_wanted = host in hosts
            if node.is_wanted and not is_wanted:
                report(f"host {host.name} is no longer a host of the job")
                if node.agent is not None:
                    node.agent.request_stop()
            if is_wanted and not node.is_wanted:
                node.failures, node.due, node.is_excluded = 0, 0.0, False
            node.is_wanted = is_wanted

    def run(self) -> int:
        """Supervise the hosts to the end of the job: its exit code."""
        while not self._has_finished or self.agents.running():
            self._update_hosts()
            self._start_due()
            self._wait()
            self._close_if_too_few()
            if self._are_too_few():
                return self._give_up()
        return self._late

    def close(self) -> None:
        """Kill all processes, and release all resources."""
        with ExitStack() as held:
            held.callback(self.agents.close)
            if self._discovery is not None:
                self._discovery.close()

    # ---- the loop

    def _update_hosts(self) -> None:
        if self._discovery is None or self._has_finished:
            return
        if (hosts := self._discovery.look()) is not None:
            self.change(hosts)

    def _start_due(self) -> None:
        """Start the hosts that are due."""
        now = time.monotonic()
        for node in self._nodes.values():
            is_idle = node.agent is None and node.is_wanted
            if is_idle and node.due <= now and not self._has_finished:
                node.is_excluded = False
                try:
                    node.agent = self.agents.start(partial(self._start, node))
                except BootstrapError as error:
                    self._try_again(str(error), 1, node.fail(None))

    def _wait(self) -> None:
        """Forward the output for a while, or until an agent ends."""
        deadline = Deadline(self._seconds_to_poll())
        for agent in as_completed(self.agents.running(), deadline):
            deadline.at_most(0.0)
            self._end(agent)
        self.agents.release_ended()
        if not self.agents.running() and not self._has_finished:
            time.sleep(deadline.left() or 0.0)
        self._end_late()
        if self._next_report.left() == 0 and (working := self.agents.running()):
            self._next_report = Deadline(REPORT_SECONDS)
            names = ", ".join(agent.host.name for agent in working)
            report(f"waiting for {names}, which still run after another host has ended")

    def _end_late(self) -> None:
        """End the agents that do not start in time."""
        for agent in self.agents.running():
            if not agent.has_job and time.monotonic() - agent.began > self._patience:
                agent.give_up(f"it did not start within {self._patience:g} s")

    def _seconds_to_poll(self) -> float:
        """Seconds to the next start of a host, or to the next check of the hosts."""
        if self._has_finished:
            return POLL_SECONDS
        idle = (n for n in self._nodes.values() if n.agent is None and n.is_wanted)
        waits = [POLL_SECONDS, *(each.due - time.monotonic() for each in idle)]
        if self._discovery is not None:
            waits.append(self._discovery.seconds())
        return max(min(waits), SHORTEST_POLL)

    def _end(self, agent: NodeAgent) -> None:
        """React to the end of an agent: try its host again in a while."""
        kill_children([agent])  # what it has left
        node = next(node for node in self._nodes.values() if node.agent is agent)
        node.agent = None
        code = agent.returncode or 0
        worked = agent.has_job and node.is_wanted
        is_missed = worked and code and not agent.has_lost_host()
        if (agent.has_job and not code) or (is_missed and self._is_closed()):
            self._has_finished, self._next_report = True, Deadline(REPORT_SECONDS)
        if self._has_finished or not node.is_wanted:
            if is_missed:  # its work after the end of the job
                self._late = code
        elif not agent.is_stopping:  # else it was no host of the job for a while
            self._fail(node, agent)

    def _fail(self, node: Node, agent: NodeAgent) -> None:
        """Report a failure, and try the host again in a while."""
        code, name = agent.returncode or 0, node.host.name
        pause = node.fail(agent)
        why = agent.problem or f"{shlex.join(agent.command)} ended with {code}"
        is_lost = agent.has_job and not node.is_excluded
        what = "is lost" if is_lost else "cannot be used"
        what = "has failed" if node.is_excluded else what
        failed = f"host {name} {what}: {why}"
        self._try_again(failed, exit_code(code) if code else 1, pause)

    def _try_again(self, failed: str, code: int, pause: float) -> None:
        """Report a failure of a host, which is tried again after a pause."""
        self._failed = failed, code
        report(f"{failed}; it is tried again in {pause:g} s")

    def _close_if_too_few(self) -> None:
        up = sum(node.host.slots for node in self._nodes.values() if node.is_up)
        if self._close and self._has_finished and 0 < up < self._least:
            self._close(f"others ended, {up} of {self._least} ranks remain")
            self._close = None

    def _are_too_few(self) -> bool:
        """Whether the job cannot go on."""
        if self._has_finished:
            return False
        wanted = [node for node in self._nodes.values() if node.is_wanted]
        up = sum(node.host.slots for node in wanted if node.is_up)
        hoped = sum(node.host.slots for node in wanted if not node.is_excluded)
        now = time.monotonic()
        if up >= self._least:
            self._enough_at = now
        if self._discovery is None and hoped < self._least:
            return True
        return now - self._enough_at > self._patience

    def _give_up(self) -> int:
        """Stop the remaining hosts, and report the last failure."""
        late = ", ".join(a.host.name for a in self.agents.running() if not a.has_job)
        self.agents.stop()
        what = f"host {late} did not start within {self._patience:g} s"
        reason, code = self._failed or (what if late else "no host could be used", 1)
        if self._discovery is not None and self._discovery.problem:
            reason = self._discovery.problem
        report(f"{reason} (fewer than {counted(self._least, 'rank')} left)")
        return code
