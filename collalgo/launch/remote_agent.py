"""The launcher's end of an agent on another host, by a remote shell."""

import json
import os
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from collalgo.errors import BootstrapError
from collalgo.launch.agent import GREETING, NO_JOB, AgentJob, Greeting, request
from collalgo.launch.child import Child
from collalgo.launch.farewell import AgentOutput
from collalgo.launch.hosts import Host
from collalgo.launch.output import Sinks
from collalgo.launch.remote_shell import RemoteShell, advice
from collalgo.launch.signals import clear_wakeup, register_wakeup
from collalgo.launch.supervision import PEER_FAILED

#: The command line of an agent.
AGENT = [sys.executable, "-m", "collalgo.launch.agent"]

#: The most bytes that an agent may send before its ranks begin.
MOST_BYTES = 4 << 20

#: Lines of the errors of a host that does not start, at most.
SHOWN_LINES = 5

#: Seconds in which an agent ends once its output has.
END_SECONDS = 0.5

#: The exit code of a remote shell that has lost its host.
SHELL_FAILED = 255


class RemoteAgent(Child):
    """The process that starts the ranks of a host, and its output.

    Attributes
    ----------
    host : Host
        The host.
    greeting : Greeting
        The greeting of the agent, once it has started.
    has_job : bool
        Whether it was sent its job.
    output : AgentOutput
        Its standard output, and that of its ranks.

    Raises
    ------
    BootstrapError
        If the system refuses the process.
    """

    greeting: Greeting

    def __init__(self, host: Host, shell: RemoteShell, sinks: Sinks):
        self.host, self.has_job = host, False
        self._received = bytearray()
        self.command = shell.line(host.name, AGENT)
        try:
            super().__init__(self.command, sinks, stdin=subprocess.PIPE)
            self.output = self._output_to(sinks)
            self.streams[0] = self.output
        except OSError as error:
            raise BootstrapError(
                f"host {host.name} cannot be used: {self.command[0]} cannot be started "
                f"({error.strerror})"
            ) from None

    def _output_to(self, sinks: Sinks) -> AgentOutput:
        """The stream of its standard output."""
        assert self.process.stdout is not None
        return AgentOutput(self.process.stdout, sinks)

    def has_lost_host(self) -> bool:
        """Whether its exit code is not that of a rank that has failed by itself."""
        code = self.returncode or 0
        of_rank = self.output.has_farewell
        return code < 0 or (code in (SHELL_FAILED, PEER_FAILED) and not of_rank)

    def lines(self) -> Iterator[str]:
        """The lines of the agent that are complete after one read of its output.

        Raises
        ------
        EOFError
            If the agent has ended.
        """
        assert self.process.stdout is not None
        with suppress(BlockingIOError):
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part or len(self._received) > MOST_BYTES:
                raise EOFError
            self._received += part
        while end := self._received.find(b"\n") + 1:
            line = self._received[:end].decode(errors="replace").strip()
            del self._received[:end]
            yield line

    def take_greeting(self, line: str) -> bool:
        """Whether a line is the greeting; the start-up output of a shell is not.

        Raises
        ------
        BootstrapError
            If it is the greeting of another version, or is not complete.
        """
        common, _, _ = GREETING.strip().rpartition(" ")
        if not line.startswith(common + " "):
            return False
        if not line.startswith(GREETING):
            raise BootstrapError(
                f"host {self.host.name} has another version of collalgo: it sent "
                f"{line[:60]!r}, not {GREETING!r}"
            )
        try:
            greeting = Greeting(**json.loads(line.removeprefix(GREETING)))
            greeting.endpoint(self.host.name), greeting.nics()
            self.output.expect(greeting.word)
        except (TypeError, ValueError):
            raise self._misunderstood(line) from None
        self.greeting = greeting
        return True

    def take_reached(self, line: str, count: int) -> list[list[str]]:
        """The addresses by which the host reaches each of some others.

        Raises
        ------
        BootstrapError
            If the line is something else.
        """
        try:
            found = json.loads(line)
            lists = [each for each in found if isinstance(each, list)]
        except (TypeError, ValueError):
            raise self._misunderstood(line) from None
        words = all(isinstance(word, str) for each in lists for word in each)
        if not words or not len(lists) == len(found) == count:
            raise self._misunderstood(line)
        return lists

    def _misunderstood(self, line: str) -> BootstrapError:
        """The error of a wrong answer of the agent."""
        return BootstrapError(
            f"the agent of host {self.host.name} sent {line[:60]!r}, not an answer"
        )

    def failure(self) -> str:
        """The reason why the host does not start: the command, its errors, advice."""
        if hasattr(self, "greeting"):  # it has started, and may be about to end
            self.await_end(END_SECONDS)
        self.kill()
        if self.await_end() == NO_JOB:
            return (
                f"host {self.host.name} received no command: "
                f"{shlex.join(self.command)} "
                "does not forward standard input; for kubectl exec add -i"
            )
        text = self.streams[1].rest().decode(errors="replace").strip()
        what = advice(text, self.host.name)
        return (
            f"host {self.host.name} cannot be used; this command failed: "
            f"{shlex.join(self.command)}"
            + "".join(f"\n  {line}" for line in text.splitlines()[-SHOWN_LINES:])
            + (f"\n  {what}" if what else "")
        )

    def ask(self, name: str, content: dict[str, Any]) -> None:
        """Send a request; the answer is a line."""
        self._write(request(name, content))

    def send(self, job: AgentJob) -> None:
        """Send the job. Its secrets are on no command line."""
        self._write(job.encode())
        self.has_job = True

    def send_signal(self, number: int) -> None:
        """Make the agent send its ranks a signal, also within a handler of one."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            with suppress(BrokenPipeError):
                os.write(self.process.stdin.fileno(), bytes([number]))

    def _write(self, data: bytes) -> None:
        """Write to the agent, unless it has ended, which its exit code reports."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            with suppress(BrokenPipeError):
                self.process.stdin.write(data)
                self.process.stdin.flush()

    def request_stop(self) -> None:
        """Make the agent stop its ranks, and end."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # with what it did not read
            self.process.stdin.close()


def reached_by(
    agents: Mapping[RemoteAgent, int], deadline: float
) -> Mapping[RemoteAgent, list[list[str]]]:
    """The addresses by which each agent reaches some hosts, of which it was sent some.

    Raises
    ------
    BootstrapError
        If one of them does not answer in time, or sends something else.
    """
    found: dict[RemoteAgent, list[list[str]]] = {}
    with selectors.DefaultSelector() as selector:
        register_wakeup(selector)
        for agent in agents:
            selector.register(agent.streams[0].pipe, selectors.EVENT_READ, agent)
        while len(found) < len(agents):
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                late = next(agent for agent in agents if agent not in found)
                raise BootstrapError(late.failure())
            clear_wakeup()
            for agent in (key.data for key, _ in ready if key.data in agents):
                if (line := _answer(agent)) is not None:
                    found[agent] = agent.take_reached(line, agents[agent])
                    selector.unregister(agent.streams[0].pipe)
    return found


def _answer(agent: RemoteAgent) -> str | None:
    """The next line of an agent; None until it is complete."""
    try:
        return next(agent.lines(), None)
    except EOFError:
        raise BootstrapError(agent.failure()) from None
