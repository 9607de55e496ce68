"""``collalgo run`` on several hosts: an agent on each, by ssh."""

import json
import os
import secrets
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.store.server import Server
from collalgo.errors import BootstrapError
from collalgo.launch import output
from collalgo.launch.agent import GREETING
from collalgo.launch.child import Child, Deadline, ends
from collalgo.launch.hosts import Host, Place
from collalgo.launch.output import Sinks
from collalgo.launch.process import exit_code
from collalgo.launch.ranks import (
    FAILURES_SETTLE,
    PATIENCE,
    VICTIM,
    Asked,
    signals_raise,
)

#: How hosts are reached, unless ``COLLALGO_RSH`` says otherwise: by the user's own
#: client, its configuration, keys and jumps, without a question that nobody answers.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")

#: Seconds that agents have to come up.
COMING_UP = 30.0

#: Hosts that need no ssh.
HERE = ("localhost", "127.0.0.1")

#: What belongs to a machine or a session, and not to a job.
NOT_PASSED = ("HOSTNAME", "DISPLAY", "TMPDIR", "PWD", "OLDPWD", "HOME", "USER", "SHELL",
              "LOGNAME", "TERM", "SHLVL", "_")  # fmt: skip
NOT_PASSED_PREFIXES = ("SSH_", "XDG_", "DBUS_", "SLURM_", "PMI_", "OMPI_")


class Agent(Child):
    """The process that starts the ranks of a host, and its outputs.

    Attributes
    ----------
    address, free_port : str
        Where others reach that host, and a port that is free there; see :meth:`greet`.
    """

    address: str
    free_port: str

    def __init__(self, host: Host, sinks: Sinks):
        self.host = host
        self.command = agent_command(host.name)
        super().__init__(self.command, sinks, stdin=subprocess.PIPE)

    def greet(self, deadline: float) -> None:
        """Wait until the agent is there.

        Raises
        ------
        BootstrapError
            With the command that has failed and what it said.
        """
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            said = b""
            while b"\n" not in said:
                left = max(deadline - time.monotonic(), 0)
                part = b""
                if selector.select(left):
                    part = os.read(self.process.stdout.fileno(), 1)
                if not part:
                    raise BootstrapError(self._complaint())
                said += part
        greeting, *where = said.decode(errors="replace").strip().rsplit(" ", 2)
        if greeting != GREETING:
            raise BootstrapError(
                f"host {self.host.name} has another version of collalgo: it says "
                f"{said[:80]!r}, not {GREETING!r}"
            )
        self.address, self.free_port = where

    def _complaint(self) -> str:
        self.process.kill()
        _, said = self.process.communicate()
        lines = said.decode(errors="replace").strip().splitlines()[-5:]
        return (
            f"host {self.host.name} cannot be used; this has failed: "
            f"{shlex.join(self.command)}" + "".join(f"\n  {line}" for line in lines)
        )

    def tell(self, spec: Mapping[str, object]) -> None:
        """Say what to run. What is secret in it shows on no command line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(spec).encode() + b"\n")
        self.process.stdin.flush()

    def dismiss(self) -> None:
        """Let the agent stop its ranks, and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()


def agent_command(name: str) -> list[str]:
    """What starts an agent on a host."""
    agent = [sys.executable, "-m", "collalgo.launch.agent"]
    if "COLLALGO_RSH" not in os.environ and name in HERE:
        return agent
    return [*_shell(), name, "exec " + shlex.join(agent)]


def _shell() -> list[str]:
    """What runs a command line on a host."""
    return shlex.split(os.environ.get("COLLALGO_RSH", "")) or list(SSH)


def known_as(name: str) -> str:
    """The name of a host of which ssh's configuration may have another."""
    shell = _shell()
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
    """Start an agent on a host, and let it go again.

    Raises
    ------
    BootstrapError
        If that fails.
    """
    agent = Agent(Host(name, 1), output.sinks())
    try:
        agent.greet(time.monotonic() + COMING_UP)
        agent.dismiss()
        agent.process.wait(COMING_UP)
    finally:
        agent.close()


def run_on_hosts(
    command: Sequence[str],
    places: Mapping[Host, list[Place]],
    logs: Path | None = None,
) -> int:
    """Run a command on ranks of several hosts: the exit code of the job."""
    sinks = output.sinks(logs)
    secret = secrets.token_bytes(32)
    server = Server(secret)
    agents: list[Agent] = []
    with signals_raise():
        try:
            agents.extend(Agent(host, sinks) for host in places)
            deadline = time.monotonic() + COMING_UP
            for agent in agents:
                agent.greet(deadline)
            common = {
                **_environment(server.port, secret),
                "WORLD_SIZE": str(sum(map(len, places.values()))),
                "MASTER_ADDR": agents[0].address,
                "MASTER_PORT": agents[0].free_port,
            }
            for agent in agents:
                agent.tell(
                    {
                        "command": list(command),
                        "folder": str(Path.cwd()),
                        "environment": {**common, "COLLALGO_HOST": agent.host.name},
                        "ranks": {p.rank: _own(p) for p in places[agent.host]},
                    }
                )
            return _supervise(agents)
        except Asked as asked:
            _stop(agents)
            return 128 + asked.number
        finally:
            for agent in agents:
                agent.close()
            server.close()


def _environment(port: int, secret: bytes) -> dict[str, str]:
    """What this process passes on to all ranks."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_PASSED and not name.startswith(NOT_PASSED_PREFIXES)
    }
    where = ",".join(addresses(loopback=True))
    return {
        **passed,
        "COLLALGO_JOB": secrets.token_hex(16),
        "COLLALGO_STORE": f"{where}:{port}",
        "COLLALGO_SECRET": secret.hex(),
        "PYTHONUNBUFFERED": "1",
    }


def _own(place: Place) -> dict[str, str]:
    """What each rank has for itself, by the names of torchrun and of Horovod."""
    return {
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_size),
        "CROSS_RANK": str(place.cross_rank),
        "CROSS_SIZE": str(place.cross_size),
    }


def _supervise(agents: list[Agent]) -> int:
    """Pass on the output until all agents have ended, or one has failed."""
    failed: list[Agent] = []
    deadline = Deadline()
    for ended in ends(agents, deadline):
        if ended.process.returncode:
            deadline.at_most(FAILURES_SETTLE + 1.0)
            failed.append(ended)
    if not failed:
        return 0
    _stop(agents)
    first = next((a for a in failed if a.process.returncode != VICTIM), failed[0])
    code = first.process.returncode
    if code in (255, VICTIM) or code < 0:
        sys.stderr.write(
            f"collalgo run: host {first.host.name} is lost: "
            f"{shlex.join(first.command)} ended with {code}\n"
        )
    return exit_code(code)


def _stop(agents: list[Agent]) -> None:
    """Let all agents stop their ranks; their output is passed on meanwhile."""
    for agent in agents:
        if not agent.ended:
            agent.dismiss()
    for _ in ends(agents, Deadline(3 * PATIENCE)):
        pass
