"""The agent of one host for ``collalgo run -H``: it starts and stops the ranks there.

It writes a greeting to standard output and reads requests from standard input, each a
line of JSON, which it answers. The last request is the job. After it, each byte is the
number of a signal for the ranks. It stops the ranks when standard input ends: so no
rank is left running after the end of the launcher or of the connection.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from threading import Thread
from typing import Any

from collalgo._version import __version__
from collalgo.base.environment import HOST, INTERFACES
from collalgo.base.threads import start
from collalgo.bootstrap.interfaces import Interface, Port, ports, rdma_devices
from collalgo.engine.transport.waiting import cores
from collalgo.errors import BootstrapError, CollalgoError
from collalgo.launch import binding, environment, network
from collalgo.launch.farewell import farewell, noting
from collalgo.launch.local import LocalLaunch, Scope
from collalgo.launch.ranks import RankSpec
from collalgo.launch.signals import FORWARDED, signals_forwarded
from collalgo.launch.supervision import OF_COMMAND, RankFailure, Supervision

#: The exit code of an agent that was sent no job.
NO_JOB = 77

#: Start of the greeting; a line of JSON follows, see :class:`Greeting`.
GREETING = f"collalgo agent {__version__} "


@dataclass(frozen=True)
class Greeting:
    """The greeting of an agent: the facts of its host.

    Attributes
    ----------
    port, word : int, str
        The port of its listener.
    interfaces : list
        Its interfaces that are up, each with name and address.
    bridges : list of str
        The names of those that are bridges.
    reached_by : str
        The address that the remote shell has connected to, if it is known.
    free_port : int
        A free port, for other libraries.
    cores : int
        The number of cores that its ranks may use.
    ports : list
        Its interfaces as the engine sees them; none if it has devices of RDMA.
    """

    port: int
    word: str
    interfaces: list[list[str]]
    bridges: list[str]
    reached_by: str
    free_port: int
    cores: int
    ports: list[list[Any]]

    def endpoint(self, host: str) -> network.Endpoint:
        """The address at which the host can be tried."""
        found = [Interface(*each) for each in self.interfaces]
        return network.Endpoint(host, self.port, self.word, found, self.bridges)

    def nics(self) -> list[Port]:
        """The interfaces that its ranks may share."""
        return [Port(*each) for each in self.ports]


@dataclass(frozen=True)
class AgentJob:
    """The job that the launcher sends to an agent.

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
    binding : str
        The binding of each rank.
    interfaces : list of str
        The interfaces that the engine may use; empty for all.
    shares : list of list of str
        Those that the engine uses for each rank; empty if it chooses.
    is_function : bool
        Whether the command runs a function, whose failures go to the store of the job.
    restarts : int or None
        Restarts of each rank, at most, if ranks may die and be restarted.
    """

    command: list[str]
    folder: str
    environment: dict[str, str]
    ranks: dict[int, dict[str, str]]
    binding: str = binding.Binding.NONE.value
    interfaces: list[str] = field(default_factory=list)
    shares: list[list[str]] = field(default_factory=list)
    is_function: bool = False
    restarts: int | None = None

    def encode(self) -> bytes:
        """The request to run it."""
        return request("run", asdict(self))

    @classmethod
    def decode(cls, content: dict[str, Any]) -> "AgentJob":
        """The job of a request."""
        return cls(**content)

    def plan(self) -> LocalLaunch:
        """The launch of the ranks of this host."""
        size = len(self.ranks)
        cpus = binding.cpus_of_ranks(binding.Binding(self.binding), size)
        shares = self.shares or [[]] * size
        ranks = zip(self.ranks.items(), cpus, shares, strict=True)
        specs = [
            RankSpec(int(rank), self._common(share) | own, bound)
            for (rank, own), bound, share in ranks
        ]
        how = self.command, specs, None, Scope.ONE_HOST, False, self.supervision()
        if self.restarts is None:
            return LocalLaunch(*how)
        from collalgo.launch.restarting import RestartingLaunch

        return RestartingLaunch(*how, restarts=self.restarts, node={})

    def _common(self, share: Sequence[str]) -> dict[str, str]:
        """The variables of a rank that uses some interfaces, without its own.

        Those that are set on this host for UCX stay.
        """
        restricted = self.interfaces
        if environment.UCX_DEVICES in os.environ:
            restricted, share = [], []
        nics = INTERFACES.given(self.environment)
        return {
            **environment.thread_limit(len(self.ranks)),
            **environment.inherited(),
            **environment.of_nics(nics, restricted, share),
            **self.environment,
        }

    def supervision(self) -> Supervision:
        """Failures are shown; those of a function go to the store of the job."""
        if not self.is_function:
            return OF_COMMAND
        from collalgo.launch.function_store import GRACE, report_failures

        return Supervision(GRACE, partial(report_failures, self.environment))


def request(name: str, content: dict[str, Any]) -> bytes:
    """A request to an agent."""
    return json.dumps([name, content]).encode() + b"\n"


class Requests:
    """The requests on standard input, and the signals after them.

    Not by ``sys.stdin``, whose lock a thread must not hold when the process ends.
    """

    def __init__(self) -> None:
        self.rest = b""

    def next(self) -> tuple[str, dict[str, Any]] | None:
        """The next request; None at the end."""
        while b"\n" not in self.rest:
            part = os.read(0, 65536)
            if not part:
                return None
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        name, content = json.loads(line)
        return name, content


def main() -> int:
    """Answer requests and run the job: the exit code of the ranks of this host."""
    listener = network.Listener()
    _say(GREETING + json.dumps(asdict(_greeting(listener))))
    requests = Requests()
    while (found := requests.next()) is not None:
        name, content = found
        if name == "run":
            listener.close()
            return _run(AgentJob.decode(content), requests.rest, listener.word)
        _say(json.dumps(ANSWERS[name](**content)))
    return NO_JOB  # the launcher has only asked


def _run(job: AgentJob, numbers: bytes, word: str = "") -> int:
    """Run a job: the exit code, and the farewell if it is that of a rank.

    Signals of the launcher may have come with the job.
    """
    with signals_forwarded(_ignore, stops=False):  # until there are ranks
        try:
            _enter(job.folder)
            plan, failed = job.plan(), list[RankFailure]()
            plan = replace(plan, supervision=noting(plan.supervision, failed))
            watch = Thread(target=_watch_launcher, args=[numbers], daemon=True)
            start(watch)
        except (CollalgoError, OSError) as error:
            reason = f"host {HOST.given(job.environment)} cannot start ranks: {error}"
            failures = [RankFailure(int(rank), reason) for rank in job.ranks]
            job.supervision().tell(failures, False)
            return 1
        code = plan.run()
        if code and failed:
            _say(farewell(word))
        return code


def _ignore(_number: int) -> None:
    """Send a signal to no rank."""


def _enter(folder: str) -> None:
    """Change to the working directory of the job."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise BootstrapError(
            f"the working directory {folder} cannot be used there ({error.strerror}); "
            "start the job from a folder that all hosts have"
        ) from None


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _greeting(listener: network.Listener) -> Greeting:
    connection = os.environ.get("SSH_CONNECTION", "").split()
    here = listener.endpoint("")
    return Greeting(
        here.port,
        here.word,
        [list(each) for each in here.interfaces],
        list(here.bridges),
        connection[2] if len(connection) == 4 else "",
        environment.free_port(),
        cores(),
        [] if rdma_devices() else [list(each) for each in ports()],
    )


def _try_hosts(hosts: list[list[Any]]) -> list[list[str]]:
    """The addresses by which this host reaches each of some others."""
    return [
        network.reached(
            network.Endpoint("", port, word, [Interface("", a) for a in at])
        )
        for port, word, at in hosts
    ]


#: The answer to each request but that to run.
ANSWERS: Mapping[str, Callable[..., Any]] = {"try": _try_hosts}


def _watch_launcher(numbers: bytes) -> None:
    """Take the numbers of signals from standard input; its end asks to stop."""
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
