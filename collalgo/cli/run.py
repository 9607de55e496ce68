"""The command ``collalgo run``."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from collalgo.errors import BootstrapError, OutputError
from collalgo.launch.hosts import Host, parse_hosts, read_hostfile
from collalgo.launch.plan import Launcher, LaunchOptions, launch_plan


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "-n",
    "size",
    type=click.IntRange(1),
    help="Number of ranks; by default one for each slot of the hosts.",
)
@click.option(
    "-H", "hosts", help="Hosts and their slots, as a:4,b:4; by default this host."
)
@click.option(
    "--hostfile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of hosts, one a line, as: a slots=4",
)
@click.option(
    "--log-dir",
    "logs",
    type=click.Path(file_okay=False, path_type=Path),
    help="Append the output of each rank to a file there too, rank_0.log and so on.",
)
@click.option(
    "--mpi",
    is_flag=True,
    help="Start the ranks by the installed mpiexec, or by srun under Slurm.",
)
@click.option("-m", "module", is_flag=True, help="Run COMMAND as a Python module.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(
    size: int | None,
    hosts: str | None,
    hostfile: Path | None,
    logs: Path | None,
    mpi: bool,
    module: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND (a Python script, or any program) on every rank.

    The ranks run on this host or, with -H or --hostfile, fill the slots of several
    hosts, which are reached by ssh.
    """
    line = _command_line(command, module)
    launcher = Launcher.MPI if mpi else Launcher.COLLALGO
    try:
        named = _hosts(hosts, hostfile)
        options = _checked(line, size, named, logs, launcher)
        sys.exit(launch_plan(options).run())
    except (BootstrapError, OutputError) as error:
        raise click.ClickException(str(error)) from None


def _checked(*options: Any) -> LaunchOptions:
    """The options, or an error of usage if they contradict each other."""
    try:
        return LaunchOptions(*options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _command_line(command: tuple[str, ...], module: bool) -> Sequence[str]:
    """The command line of a rank, with this Python in front of a script or module."""
    if module:
        command = (sys.executable, "-m", *command)
    elif command[0].endswith(".py"):
        if not Path(command[0]).exists():
            raise click.UsageError(f"there is no file {command[0]!r}")
        command = (sys.executable, *command)
    if shutil.which(command[0]) is None:
        raise click.UsageError(f"there is no program {command[0]!r}")
    return command


def _hosts(hosts: str | None, hostfile: Path | None) -> list[Host]:
    """The hosts of -H or of a file."""
    if hosts is not None and hostfile is not None:
        raise click.UsageError("give -H or --hostfile, not both")
    if hostfile is not None:
        return read_hostfile(hostfile)
    return parse_hosts(hosts) if hosts is not None else []
