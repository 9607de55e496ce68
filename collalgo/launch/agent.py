"""The agent of one host for ``collalgo run -H``: it starts and stops the ranks there.

It writes a greeting to standard output, and reads from standard input what to run, then
a byte for each signal that the ranks are to get. It stops the ranks when standard input
ends: so nothing is left running after the end of the launcher or of the connection.
"""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from threading import Thread

from collalgo._version import __version__
from collalgo.bootstrap.interfaces import addresses
from collalgo.launch.environment import free_port, thread_limit
from collalgo.launch.local import LocalLaunch, RankSpec, Scope
from collalgo.launch.signals import FORWARDED

#: The exit code of an agent that was sent no job.
NO_JOB = 77

#: Start of the greeting; an address and a free port of this host follow.
GREETING = f"collalgo agent {__version__}"


@dataclass(frozen=True)
class AgentJob:
    """What the launcher sends to an agent, as a line of JSON.

    Attributes
    ----------
    command : list of str
        The command line of each rank.
    folder : str
        Working directory.
    environment : dict
        Variables of all ranks.
    ranks : dict
        Further variables of each rank, by its number.
    """

    command: list[str]
    folder: str
    environment: dict[str, str]
    ranks: dict[int, dict[str, str]]

    def encode(self) -> bytes:
        """The line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "AgentJob":
        """The job of a line."""
        return cls(**json.loads(line))

    def plan(self) -> LocalLaunch:
        """The launch of the ranks of this host."""
        common = {**thread_limit(len(self.ranks)), **os.environ, **self.environment}
        specs = [RankSpec(int(rank), common | own) for rank, own in self.ranks.items()]
        return LocalLaunch(self.command, specs, scope=Scope.ONE_HOST)


def main() -> int:
    """Run the job on standard input: the exit code of the ranks of this host."""
    sys.stdout.write(f"{GREETING} {_address()} {free_port()}\n")
    sys.stdout.flush()
    line, numbers = _read_job()
    if not line:
        return NO_JOB  # the launcher has only tried whether an agent can start here
    job = AgentJob.decode(line)
    os.chdir(job.folder)
    Thread(target=_watch_launcher, args=[numbers], daemon=True).start()
    return job.plan().run()


def _address() -> str:
    """The address of this host for others: the one that ssh connected to, if any."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return connection[2] if len(connection) == 4 else addresses(loopback=True)[0]


def _read_job() -> tuple[bytes, bytes]:
    """The line of the job, and what has come after it; empty if there is none."""
    data = b""
    while b"\n" not in data:
        part = os.read(0, 65536)
        if not part:
            return b"", b""
        data += part
    line, _, rest = data.partition(b"\n")
    return line, rest


def _watch_launcher(numbers: bytes) -> None:
    """Take the numbers of signals from standard input; its end asks to stop.

    Not by ``sys.stdin``, whose lock a thread must not hold when the process ends.
    """
    while True:
        for number in numbers:
            if number in FORWARDED or number in (signal.SIGTSTP, signal.SIGCONT):
                os.kill(os.getpid(), number)
        numbers = os.read(0, 4096)
        if not numbers:
            break
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
