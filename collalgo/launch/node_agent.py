"""The launcher's end of an agent that starts while the ranks of other hosts run."""

import time
from collections import Counter
from collections.abc import Callable
from typing import IO

from collalgo.errors import BootstrapError
from collalgo.launch.agent import AgentJob
from collalgo.launch.farewell import AgentOutput
from collalgo.launch.hosts import Host
from collalgo.launch.network import Answers, Endpoint, HostNetwork, networks
from collalgo.launch.output import Sinks
from collalgo.launch.remote_agent import RemoteAgent
from collalgo.launch.remote_shell import RemoteShell

#: Makes the job of a host from the addresses at which it reaches the launcher.
JobOf = Callable[["NodeAgent", list[str]], AgentJob]


class _AnsweringOutput(AgentOutput):
    """The output of an agent, of which the launcher takes the answers as they come."""

    def __init__(self, pipe: IO[bytes], sinks: Sinks, take: Callable[[], bool]):
        super().__init__(pipe, sinks)
        self._take_answers = take
        self.is_answering = True

    def forward(self) -> bool:
        """Take answers, or forward output; False at the end."""
        return self._take_answers() if self.is_answering else super().forward()


class NodeAgent(RemoteAgent):
    """An agent whose answers are read by the loop that forwards all output.

    Parameters
    ----------
    host, shell, sinks
        As for :class:`~.remote_agent.RemoteAgent`.
    launcher
        The addresses at which the agent tries the launcher.
    job_of
        Makes the job that it is sent.

    Attributes
    ----------
    problem : str
        The reason why it cannot be used; empty if it can.
    began : float
        When it was started.
    is_stopping : bool
        Whether it was asked to stop.
    """

    output: _AnsweringOutput

    def __init__(
        self,
        host: Host,
        shell: RemoteShell,
        sinks: Sinks,
        launcher: Endpoint,
        job_of: JobOf,
    ):
        super().__init__(host, shell, sinks)
        self._launcher, self._job_of = launcher, job_of
        self.problem, self.began = "", time.monotonic()
        self.is_stopping = False

    def _output_to(self, sinks: Sinks) -> _AnsweringOutput:
        assert self.process.stdout is not None
        return _AnsweringOutput(self.process.stdout, sinks, self._take)

    def network(self, nics: list[str]) -> HostNetwork:
        """The interfaces of the host that may lead to others; bridges do not.

        Raises
        ------
        BootstrapError
            If it has none of the interfaces that the user wants.
        """
        point = self.greeting.endpoint(self.host.name)
        plain = [e for e in point.outward if e.name not in point.bridges]
        times = Counter(each.address for each in plain or point.interfaces)
        (found,) = networks(
            [point], [Answers(times, 1, self.greeting.reached_by)], nics
        )
        return found

    def give_up(self, problem: str) -> None:
        """Note the reason why the host cannot be used, and end its agent."""
        self.problem = self.problem or problem
        self.kill()

    def request_stop(self) -> None:
        """Make the agent stop its ranks, and end, which does not count as a failure."""
        self.is_stopping = True
        super().request_stop()

    def _take(self) -> bool:
        """Take the answers that have arrived; False at the end of the output."""
        try:
            for line in self.lines():
                self._take_line(line)
                if self.has_job:
                    break
        except EOFError:
            return False
        except (BootstrapError, ValueError) as error:
            self.give_up(str(error))
        return True

    def _take_line(self, line: str) -> None:
        """Take the greeting, or the addresses at which the launcher is reached."""
        if not hasattr(self, "greeting"):
            if self.take_greeting(line):
                at = [each.address for each in self._launcher.interfaces]
                point = [self._launcher.port, self._launcher.word, at]
                self.ask("try", {"hosts": [point]})
            return
        (reached,) = self.take_reached(line, 1)
        if not reached:
            own = ", ".join(each.address for each in self._launcher.outward)
            raise BootstrapError(
                f"it does not reach this launcher at {own}; check the firewall of this "
                "host"
            )
        self.send(self._job_of(self, reached))
        self.output.is_answering = False
