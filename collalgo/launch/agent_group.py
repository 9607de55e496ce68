"""The agents of a job: their start, what all of them are sent, and their end."""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from collalgo.base.environment import HOST, INTERFACES
from collalgo.launch import environment
from collalgo.launch.agent import AgentJob
from collalgo.launch.child import Deadline, as_completed, close_children
from collalgo.launch.hosts import Host
from collalgo.launch.options import LaunchOptions
from collalgo.launch.remote_agent import RemoteAgent
from collalgo.launch.signals import stop_delayed
from collalgo.launch.supervision import STOP_SECONDS

AnAgent = TypeVar("AnAgent", bound=RemoteAgent)


class AgentGroup(Generic[AnAgent]):
    """The agents of a job.

    Attributes
    ----------
    all : list of RemoteAgent
        Those that were started and are not released.
    """

    def __init__(self) -> None:
        self.all: list[AnAgent] = []

    def start(self, make: Callable[[], AnAgent]) -> AnAgent:
        """Start an agent.

        Raises
        ------
        BootstrapError
            If the system refuses its remote shell.
        """
        with stop_delayed():  # each process is in the list
            agent = make()
            self.all.append(agent)
        return agent

    def running(self) -> list[AnAgent]:
        """Those that have not ended."""
        return [agent for agent in self.all if not agent.ended]

    def send_signal(self, number: int) -> None:
        """Send a signal to all ranks; SIGSTOP is not for their agents.

        A host whose ranks have not started gets none: its agent reads requests.
        """
        as_sent = signal.SIGTSTP if number == signal.SIGSTOP else number
        for agent in self.running():
            if agent.has_job:
                agent.send_signal(as_sent)

    def stop(self) -> None:
        """Make all agents stop their ranks, and forward the output meanwhile.

        Those without ranks are killed; they may wait for the network.
        """
        working = [agent for agent in self.running() if agent.has_job]
        for agent in self.running():
            agent.request_stop()
            if agent not in working:
                agent.kill()
        for _ in as_completed(working, Deadline(3 * STOP_SECONDS)):
            pass

    def release_ended(self) -> None:
        """Release the resources of those that have ended; a job may start many."""
        with stop_delayed():  # none is closed twice
            ended = [agent for agent in self.all if agent.ended]
            self.all = self.running()
            close_children(ended)

    def close(self) -> None:
        """Kill all processes, and release all resources."""
        close_children(self.all)


def agent_job(
    options: LaunchOptions,
    host: Host,
    variables: Mapping[str, str],
    ranks: Mapping[int, dict[str, str]],
    interfaces: Sequence[str],
    **further: Any,
) -> AgentJob:
    """The job of a host.

    Parameters
    ----------
    options
        The command, and how to start it.
    host
        The host.
    variables
        Those of all ranks, besides those of this process.
    ranks
        Further ones of each rank, by its number.
    interfaces
        The interfaces that the engine may use; empty for all.
    further
        Other fields of the job.
    """
    nics = {INTERFACES.name: ",".join(options.interfaces)} if options.interfaces else {}
    every = {**environment.forwarded(), **variables, **nics, HOST.name: host.name}
    return AgentJob(
        list(options.command),
        str(Path.cwd()),
        every,
        dict(ranks),
        options.binding.value,
        list(interfaces),
        is_function=options.is_function,
        **further,
    )
