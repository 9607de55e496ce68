"""The options of ``collalgo run`` and of :func:`collalgo.run`, and the launchers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from collalgo.launch.binding import Binding
from collalgo.launch.environment import TORCH
from collalgo.launch.hosts import Host

#: Seconds that the agents of all hosts have to start.
START_SECONDS = 30.0

#: Restarts of each rank that dies, at most, where ranks may die.
RESTARTS = 3

#: Members of an elastic job at most, so that a value of every store can hold them.
MOST_MEMBERS = 2000


class OptionError(ValueError):
    """Options that are invalid, or contradict each other."""


class Launcher(Enum):
    """The launcher; AUTO: see :func:`~collalgo.launch.plan.choose`."""

    AUTO = "auto"
    SSH = "ssh"
    MPI = "mpi"
    SLURM = "slurm"
    LSF = "lsf"


class Starter(Enum):
    """The program that starts the ranks."""

    HERE = "collalgo itself, on this host"
    SSH = "collalgo itself, by ssh on other hosts"
    MPI = "the installed mpiexec"
    SLURM = "srun"
    LSF = "jsrun"


class Choice(NamedTuple):
    """The launcher, the reason, and the hosts; none: those that it knows."""

    starter: Starter
    reason: str
    hosts: Sequence[Host] = ()

    def __str__(self) -> str:
        return f"{self.starter.value} ({self.reason})"


@dataclass(frozen=True)
class SshOptions:
    """Options of ssh.

    Attributes
    ----------
    port : int or None
        The port of its servers; None: as its configuration says.
    identity : Path or None
        A file with a private key.
    options : sequence of str
        Further options, as in its configuration: ``StrictHostKeyChecking=accept-new``.
    """

    port: int | None = None
    identity: Path | None = None
    options: Sequence[str] = ()

    @property
    def words(self) -> list[str]:
        """The options on a command line."""
        port = [] if self.port is None else ["-p", str(self.port)]
        identity = [] if self.identity is None else ["-i", str(self.identity)]
        return [*port, *identity, *(w for each in self.options for w in ("-o", each))]


@dataclass(frozen=True)
class LaunchOptions:
    """The options of a job.

    Attributes
    ----------
    command : sequence of str
        The command line of each rank.
    size : int or None
        Number of ranks; None: one for each slot of the hosts.
    hosts : sequence of Host
        Hosts and slots; none: those of a batch system, or this host.
    logs : Path or None
        Folder for files with the output of each rank.
    launcher : Launcher
        The launcher of the ranks.
    delegates : bool
        Whether another launcher has to start the ranks, if AUTO decides.
    dialect : str
        The names of the variables of a rank; see ``environment.DIALECTS``.
    ssh : SshOptions
        Options of ssh.
    start_timeout : float
        Seconds that all hosts have to start.
    interfaces : sequence of str
        Interfaces between the hosts; none: those that are found to work.
    binding : Binding
        The binding of each rank.
    launcher_words : sequence of str
        Further options for the launcher that is delegated to.
    timestamp : bool
        Whether each line of output begins with the time.
    verbose : bool
        Whether the launcher reports its actions.
    is_function : bool
        Whether the command runs a function, whose failures go to the store of the job.
    least : int or None
        The least number of ranks with which the job continues; None: all.
    restarts : int or None
        Restarts of each rank that dies, at most; None: the default of a job in which
        ranks may die, or none.
    elastic : bool
        Whether nodes of the job may join and leave; this host is one of them, unless
        ``discover`` names others.
    nodes : tuple of int or None
        The number of nodes of such a job, at least and at most.
    per_node : int or None
        The number of ranks on each of its nodes; None: one.
    rendezvous : str or None
        The URL of their rendezvous.
    discover : Path or None
        A script that prints the hosts of such a job, which this launcher then starts.
    job : str
        Its id.
    """

    command: Sequence[str]
    size: int | None = None
    hosts: Sequence[Host] = ()
    logs: Path | None = None
    launcher: Launcher = Launcher.AUTO
    delegates: bool = False
    dialect: str = TORCH
    ssh: SshOptions = SshOptions()
    start_timeout: float = START_SECONDS
    interfaces: Sequence[str] = ()
    binding: Binding = Binding.NONE
    launcher_words: Sequence[str] = ()
    timestamp: bool = False
    verbose: bool = False
    is_function: bool = False
    least: int | None = None
    restarts: int | None = None
    elastic: bool = False
    nodes: tuple[int, int] | None = None
    per_node: int | None = None
    rendezvous: str | None = None
    discover: Path | None = None
    job: str = "job"

    @property
    def is_elastic(self) -> bool:
        """Whether ranks may die and be restarted."""
        return self.least is not None or self.restarts is not None or self.elastic

    def __post_init__(self) -> None:
        if not 0 < self.start_timeout < float("inf"):
            raise OptionError(
                f"--start-timeout is {self.start_timeout:g}; pass some seconds, as 30"
            )
