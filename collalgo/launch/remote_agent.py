"""The launcher's end of an agent on another host, by ssh."""

import os
import selectors
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from collalgo.errors import BootstrapError
from collalgo.launch import output
from collalgo.launch.agent import GREETING, AgentJob
from collalgo.launch.child import Child
from collalgo.launch.hosts import Host
from collalgo.launch.output import Sinks
from collalgo.launch.signals import clear_wakeup, register_wakeup

#: The remote shell, unless ``COLLALGO_RSH`` names another: the user's own client with
#: its configuration, keys and jumps, and without questions on a terminal.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")

#: Seconds that agents have to start.
START_SECONDS = 30.0

#: Hosts that need no ssh.
LOCAL_NAMES = ("localhost", "127.0.0.1")


class RemoteAgent(Child):
    """The process that starts the ranks of a host, and its output.

    Attributes
    ----------
    address, free_port : str
        Address of that host, and a port that is free there; from the greeting.
    """

    address: str
    free_port: str

    def __init__(self, host: Host, sinks: Sinks):
        self.host = host
        self.command = agent_command(host.name)
        super().__init__(self.command, sinks, stdin=subprocess.PIPE)

    def wait_ready(self, deadline: float) -> None:
        """Wait for the greeting of the agent.

        Raises
        ------
        BootstrapError
            With the failed command and its output.
        """
        said = self._first_line(deadline).decode(errors="replace")
        greeting, *where = said.strip().rsplit(" ", 2)
        if greeting != GREETING:
            raise BootstrapError(
                f"host {self.host.name} has another version of collalgo: it says "
                f"{said[:80]!r}, not {GREETING!r}"
            )
        self.address, self.free_port = where

    def _first_line(self, deadline: float) -> bytes:
        """The first line of output, read byte by byte: the rest is of the ranks."""
        assert self.process.stdout is not None
        output, line = self.process.stdout.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            register_wakeup(selector)
            while b"\n" not in line:
                found = selector.select(max(deadline - time.monotonic(), 0))
                ready = [key.fd for key, _ in found]
                part = os.read(output, 1) if output in ready else b""
                if not part and (output in ready or not ready):  # it has ended, or late
                    raise BootstrapError(self._failure())
                clear_wakeup()
                line += part
        return line

    def _failure(self) -> str:
        self.process.kill()
        _, said = self.process.communicate()
        lines = said.decode(errors="replace").strip().splitlines()[-5:]
        return (
            f"host {self.host.name} cannot be used; this has failed: "
            f"{shlex.join(self.command)}" + "".join(f"\n  {line}" for line in lines)
        )

    def send(self, job: AgentJob) -> None:
        """Send the job. Its secrets are on no command line."""
        self._write(job.encode())

    def send_signal(self, number: int) -> None:
        """Make the agent send its ranks a signal."""
        self._write(bytes([number]))

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


def agent_command(name: str) -> list[str]:
    """The command line that starts an agent on a host."""
    agent = [sys.executable, "-m", "collalgo.launch.agent"]
    if "COLLALGO_RSH" not in os.environ and name in LOCAL_NAMES:
        return agent
    return [*_remote_shell(), name, "exec " + shlex.join(agent)]


def _remote_shell() -> list[str]:
    """The command that runs a command line on a host."""
    given = os.environ.get("COLLALGO_RSH", "")
    try:
        return shlex.split(given) or list(SSH)
    except ValueError as error:
        raise BootstrapError(f"COLLALGO_RSH is no command: {given} ({error})") from None


def resolve_alias(name: str) -> str:
    """The host name behind an alias in the configuration of ssh."""
    shell = _remote_shell()
    if Path(shell[0]).name != "ssh":
        return name
    with suppress(OSError):  # then there is no ssh
        asked = subprocess.run(
            [*shell, "-G", name], capture_output=True, text=True, check=False
        )
        for line in asked.stdout.splitlines():
            key, _, value = line.partition(" ")
            if key == "hostname":
                return value
    return name


def try_host(name: str) -> None:
    """Start an agent on a host, and stop it again.

    Raises
    ------
    BootstrapError
        If that fails.
    """
    agent = RemoteAgent(Host(name, 1), output.sinks())
    try:
        agent.wait_ready(time.monotonic() + START_SECONDS)
        agent.request_stop()
        agent.process.wait(START_SECONDS)
    finally:
        agent.close()
