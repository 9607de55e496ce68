"""The command ``collalgo``."""

import importlib
import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from collalgo.cli.algorithms import algorithms, verify_command
from collalgo.cli.cost import bound_command, calibrate_command, simulate_command
from collalgo.cli.doctor import doctor_command
from collalgo.cli.select import select_command
from collalgo.cli.trace import main as trace_group
from collalgo.errors import BootstrapError
from collalgo.launch.hosts import Host, assign, parse, read
from collalgo.launch.ranks import run as run_ranks


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="collalgo")
def main() -> None:
    """Collective communication: run it, prove it, choose it, measure it."""


@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("-n", "size", type=click.IntRange(1), help="Ranks.")
@click.option("-H", "hosts", help="Hosts and their slots, as a:4,b:4.")
@click.option(
    "--hostfile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of hosts, a line for each, as: a slots=4",
)
@click.option(
    "--log-dir",
    "logs",
    type=click.Path(file_okay=False, path_type=Path),
    help="Append the output of each rank to a file there too, rank_0.log and so on.",
)
@click.option("--mpi", is_flag=True, help="Let the mpiexec or srun at hand start them.")
@click.option("-m", "module", is_flag=True, help="COMMAND is a Python module.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    size: int | None,
    hosts: str | None,
    hostfile: Path | None,
    logs: Path | None,
    mpi: bool,
    module: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND (a Python script, or any program) on every rank.

    The ranks are on this host or, with -H or --hostfile, fill the slots of several,
    which are reached by ssh.
    """
    if module:
        command = (sys.executable, "-m", *command)
    elif command[0].endswith(".py"):
        command = (sys.executable, *command)
    if shutil.which(command[0]) is None:
        raise click.UsageError(f"there is no program {command[0]!r}")
    if hosts is not None and hostfile is not None:
        raise click.UsageError("give -H or --hostfile, not both")
    try:
        named: list[Host] = parse(hosts) if hosts is not None else []
        named += read(hostfile) if hostfile is not None else []
        if size is None and not named:
            raise click.UsageError("say how many ranks: -n 4")
        sys.exit(_start(command, named, size, logs, mpi))
    except BootstrapError as error:
        raise click.ClickException(str(error)) from None


def _start(
    command: tuple[str, ...],
    hosts: list[Host],
    size: int | None,
    logs: Path | None,
    mpi: bool,
) -> int:
    """Run a command here, on hosts, or by the mpiexec at hand: its exit code."""
    if mpi:
        from collalgo.launch.delegate import command_line

        if logs is not None:
            raise click.UsageError("--log-dir is not for --mpi; mpiexec has its own")
        ranks = size or sum(host.slots for host in hosts)
        line = command_line(command, ranks, hosts)
        click.echo(f"collalgo run: {shlex.join(line)}", err=True)
        os.execv(line[0], line)
    if hosts:
        from collalgo.launch.remote import run_on_hosts

        return run_on_hosts(command, assign(hosts, size), logs)
    assert size is not None
    return run_ranks(command, size, logs)


# The suite lies beside this package, whose part it is only once installed.
bench = importlib.import_module("collalgo.bench.cli")
main.add_command(bench.main, "bench")
main.add_command(bench.tune)
main.add_command(importlib.import_module("collalgo.bench.cluster.cli").main, "cluster")
main.add_command(importlib.import_module("collalgo.cli.topo").main, "topo")
main.add_command(algorithms)
main.add_command(verify_command)
main.add_command(select_command)
main.add_command(bound_command)
main.add_command(calibrate_command)
main.add_command(simulate_command)
main.add_command(doctor_command)
main.add_command(trace_group, "trace")
