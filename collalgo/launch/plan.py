"""From the options of ``collalgo run`` to a plan that starts the ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from collalgo.launch.hosts import MAX_SLOTS, Host, assign_ranks, check_ranks


class Launcher(Enum):
    """The program that starts the ranks."""

    COLLALGO = "collalgo itself, by ssh on other hosts"
    MPI = "the installed mpiexec, or srun in an allocation of Slurm"


@dataclass(frozen=True)
class LaunchOptions:
    """The options of ``collalgo run``.

    Attributes
    ----------
    command : sequence of str
        The command line of each rank.
    size : int or None
        Number of ranks; None: one for each slot of the hosts.
    hosts : sequence of Host
        Hosts and slots; none: this host.
    logs : Path or None
        Folder for a file with the output of each rank.
    launcher : Launcher
        The program that starts the ranks.
    """

    command: Sequence[str]
    size: int | None = None
    hosts: Sequence[Host] = ()
    logs: Path | None = None
    launcher: Launcher = Launcher.COLLALGO

    def __post_init__(self) -> None:
        if self.size is None and not self.hosts:
            raise ValueError(
                "the number of ranks is missing; pass -n 4, or hosts with slots"
            )
        here = not self.hosts and self.launcher is Launcher.COLLALGO
        if here and self.ranks > MAX_SLOTS:
            raise ValueError(
                f"{self.ranks} ranks are more than the {MAX_SLOTS} that one host "
                "takes; pass fewer, or more hosts: -H a:4,b:4"
            )
        if self.logs is not None and self.launcher is Launcher.MPI:
            raise ValueError("--log-dir is not for --mpi; mpiexec has its own")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.size or sum(host.slots for host in self.hosts)


class LaunchPlan(Protocol):
    """A job that is ready to be started."""

    def run(self) -> int:
        """Run the job to its end: its exit code."""


def launch_plan(options: LaunchOptions) -> LaunchPlan:
    """The plan for some options: by MPI, by ssh, or on this host alone.

    Raises
    ------
    BootstrapError
        If the ranks do not fit on the hosts, or there is no program to start them.
    """
    if options.launcher is Launcher.MPI:
        check_ranks(options.ranks)
        from collalgo.launch.delegate import DelegatedLaunch

        return DelegatedLaunch.of_job(options.command, options.ranks, options.hosts)
    if options.hosts:
        from collalgo.launch.ssh import SshLaunch

        positions = assign_ranks(options.hosts, options.size)
        return SshLaunch(options.command, positions, options.logs)
    from collalgo.launch.local import LocalLaunch

    return LocalLaunch.of_job(options.command, options.ranks, options.logs)
