"""The command ``collalgo run``."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from collalgo.bootstrap.identity import LAUNCHERS
from collalgo.cli import completing
from collalgo.cli.launching import launch_options
from collalgo.errors import BootstrapError, OutputError
from collalgo.integrations.as_mpi4py import put_in_front
from collalgo.integrations.as_mpi4py.unlaunched import advice
from collalgo.integrations.preload import is_of_mpi, preload
from collalgo.launch.hosts import Host, parse_hosts, read_hostfile
from collalgo.launch.messages import report
from collalgo.launch.options import Choice, LaunchOptions, OptionError, Starter
from collalgo.launch.plan import LaunchPlan, launch_plan, number_of_ranks
from collalgo.launch.signals import StopRequested, requests_until_exit

#: The commands that start programs of MPI.
LAUNCHERS_OF_MPI = ("mpiexec", "mpirun", "srun")

#: The command of the ranks, with its arguments.
command_argument = click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    shell_complete=completing.files,
)


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@launch_options
@click.option("-m", "module", is_flag=True, help="Run COMMAND as a Python module.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the placement and the commands; connect to no host.",
)
@click.option(
    "--as-mpi4py",
    is_flag=True,
    help="Replace mpi4py: 'from mpi4py import MPI' imports collalgo, and no MPI is "
    "needed.",
)
@click.option(
    "--preload",
    "preloaded",
    is_flag=True,
    help="Take collectives of MPI programs in C to collalgo: --preload mpiexec -n 4 "
    "./a.out.",
)
@command_argument
def run_command(
    command: tuple[str, ...],
    module: bool,
    dry_run: bool,
    as_mpi4py: bool,
    preloaded: bool,
    **given: Any,
) -> None:
    """Run COMMAND, a Python script or any program, on every rank.

    A script FILE.py runs with the Python of this command; for another one write
    collalgo run python FILE.py.

    Ranks run on this host. With -H or --hostfile they run in the slots of several
    hosts, over ssh. In a Slurm, LSF, PBS or Grid Engine job of several hosts they run
    on the hosts of the job.
    """
    line = command_line(command, module=module)
    if as_mpi4py:
        put_in_front(os.environ)
    try:
        if preloaded:
            _run_preloaded(line)
        hosts = _hosts(given.pop("hosts"), given.pop("hostfile"))
        options = LaunchOptions(line, hosts=hosts, **given)
        plan, choice = launch_plan(options)
        if dry_run:
            # Here, as rich takes 30 ms that other jobs need not wait for.
            from collalgo.cli.placement import show_placement

            show_placement(plan.placement(), choice)
            sys.exit(0)
        _report(options, choice, as_mpi4py=as_mpi4py)
        sys.exit(_exit_code(plan))
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    except (BootstrapError, OutputError) as error:
        raise click.ClickException(str(error)) from None


def _report(options: LaunchOptions, choice: Choice, *, as_mpi4py: bool) -> None:
    """Report the launcher if asked, and ranks that would be worlds of one of MPI."""
    if options.verbose:
        report(f"launcher: {choice}")
    text = advice(options.command, number_of_ranks(options, choice))
    if text and not as_mpi4py and choice.starter in (Starter.HERE, Starter.SSH):
        report(text)


def _run_preloaded(line: Sequence[str]) -> NoReturn:
    """Become the launcher of an MPI, whose ranks load the library first."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in {"command", "module", "preloaded"}:
            raise click.UsageError(
                f"--preload starts no ranks itself, so {parameter.opts[0]} has no "
                "effect; give the launcher of the MPI its options: "
                + _with_launcher(line, context.params["size"])
            )
    preload(os.environ)
    _warn_of_one_rank(line)
    try:
        os.execvp(line[0], list(line))
    except OSError as error:
        raise click.ClickException(f"cannot run {line[0]}: {error.strerror}") from None


def _with_launcher(line: Sequence[str], ranks: int | None = None) -> str:
    """The command that starts ranks of a program of MPI."""
    if Path(line[0]).name not in LAUNCHERS_OF_MPI:
        line = ("mpiexec", "-n", str(ranks or 4), *line)
    elif ranks:
        line = (line[0], "-n", str(ranks), *line[1:])
    return f"collalgo run --preload {shlex.join(line)}"


def _warn_of_one_rank(line: Sequence[str]) -> None:
    """Warn of a program of MPI that no launcher starts."""
    if is_of_mpi(line[0]) and not any(each.is_in(os.environ) for each in LAUNCHERS):
        report(
            f"{line[0]} is a program of MPI and runs as one rank; for several write "
            + _with_launcher(line)
        )


def _exit_code(plan: LaunchPlan) -> int:
    """Run a plan: its exit code, which no signal after a first one changes."""
    with requests_until_exit():
        try:
            return plan.run()
        except StopRequested as request:
            return 128 + request.number


def command_line(command: tuple[str, ...], *, module: bool) -> Sequence[str]:
    """The command line of a rank, with this Python in front of a script or module."""
    if not command:
        raise click.UsageError("-m needs the name of a module")
    if module:
        command = (sys.executable, "-m", *command)
    elif command[0].endswith(".py"):
        if not Path(command[0]).exists():
            raise click.UsageError(f"there is no file {command[0]!r}")
        name = f"./{command[0]}" if command[0].startswith("-") else command[0]
        command = (sys.executable, name, *command[1:])
    if shutil.which(command[0]) is None:
        raise click.UsageError(_unusable(command[0]))
    return command


def _unusable(program: str) -> str:
    """Why a program cannot be started."""
    if program.startswith("-"):
        meant = "; did you mean -n?" if program in _RANKS_ELSEWHERE else ""
        return f"no such option {program!r}{meant}"
    if Path(program).is_dir():
        return f"{program!r} is a folder; name a script or a program"
    if "/" in program and Path(program).exists():
        return (
            f"{program!r} is not an executable file; make it one (chmod +x), or put "
            "the program in front that runs it"
        )
    return f"there is no program {program!r}"


#: The numbers of ranks of other launchers and commands.
_RANKS_ELSEWHERE = ("-R", "-np", "--np", "--nproc", "-c", "--ntasks")


def _hosts(hosts: str | None, hostfile: Path | None) -> list[Host]:
    """The hosts of -H or of a file."""
    if hosts is not None and hostfile is not None:
        raise click.UsageError("give -H or --hostfile, not both")
    if hostfile is not None:
        return read_hostfile(hostfile)
    return parse_hosts(hosts) if hosts is not None else []
