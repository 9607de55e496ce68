"""The command ``collalgo``."""

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from collalgo import drawing
from collalgo.algorithms import ALGORITHMS, Algorithm, named
from collalgo.collective import COLLECTIVES
from collalgo.cost.cli import bound_command, calibrate_command, simulate_command
from collalgo.doctor import doctor_command
from collalgo.errors import BootstrapError, CollalgoError
from collalgo.launch.hosts import Host, assign, parse, read
from collalgo.launch.ranks import run as run_ranks
from collalgo.options import collective_option, load_named, load_option
from collalgo.schedule import ScheduleFunction, trace
from collalgo.selection.cli import select_command
from collalgo.tracing.cli import main as trace_group
from collalgo.verify import Proof, verify

#: Sizes for which ``collalgo verify`` proves an algorithm, unless told otherwise.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)

#: Every root is proved up to this size, beyond it the first, the middle and the last.
EVERY_ROOT = 17


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
    help="Keep the output of each rank in a file there too.",
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


@main.command("verify")
@click.argument("algorithm", required=False)
@click.option("--all", "everything", is_flag=True, help="All of the table.")
@collective_option
@click.option("-n", "--size", "sizes", type=click.IntRange(1), multiple=True)
def verify_command(
    algorithm: str | None,
    everything: bool,
    collective: str | None,
    sizes: tuple[int, ...],
) -> None:
    """Prove ALGORITHM: a name of the table, FILE.py or FILE.py:FUNCTION.

    Of a file all functions are proved that @collalgo.algorithm puts into the table. For
    each size every root is proved up to 17 ranks; without --size, several up to 17.
    """
    if everything == (algorithm is not None):
        raise click.UsageError("name an ALGORITHM, or pass --all")
    proved = 0
    for row in _meant(algorithm, collective):
        for size in sizes or SIZES:
            if isinstance(row, Algorithm) and (obstacle := row.obstacle(size)):
                click.echo(f"{row.collective} {row.name}: {obstacle}")
                continue
            proof = _prove(row, collective, size)
            name = f"{row.name}: " if isinstance(row, Algorithm) else ""
            click.echo(f"{name}{proof}")
            proved += 1
    if not proved:
        raise click.ClickException("nothing was proved")


def _meant(
    algorithm: str | None, collective: str | None
) -> Sequence[Algorithm | ScheduleFunction]:
    """The rows, or the function, that the user means."""
    if algorithm is not None and ".py:" in algorithm:
        return [_function(algorithm)]
    rows = list(ALGORITHMS)
    if algorithm is not None and algorithm.endswith(".py"):
        known = set(map(id, rows))
        load_named(algorithm)
        rows = [row for row in ALGORITHMS if id(row) not in known]
        if not rows:
            raise click.UsageError(
                f"{algorithm} puts no algorithm into the table; decorate a function "
                f"with @collalgo.algorithm(...), or name one: {algorithm}:FUNCTION"
            )
    elif algorithm is not None:
        plain = algorithm.partition("(")[0]
        of_name = {row.collective for row in rows if row.name == plain}
        try:
            rows = [
                named(each, algorithm)
                for each in COLLECTIVES
                if each in of_name or each == collective
            ]
        except CollalgoError as error:
            raise click.ClickException(str(error)) from None
        if not rows:
            names = ", ".join(sorted({row.name for row in ALGORITHMS}))
            raise click.UsageError(
                f"there is no algorithm {algorithm!r}; choose one of {names}"
            )
    return [row for row in rows if collective in (None, row.collective)]


def _prove(
    meant: Algorithm | ScheduleFunction, collective: str | None, size: int
) -> Proof:
    """The proof for a size, for the first of the roots."""
    schedule: ScheduleFunction
    if isinstance(meant, Algorithm):
        schedule, collective = meant.schedule, meant.collective
    else:
        schedule = meant
    try:
        proof = verify(schedule, size=size, collective=collective)
        if COLLECTIVES[proof.collective].rooted:
            few = {size // 2, size - 1} - {0}
            for root in range(1, size) if size <= EVERY_ROOT else sorted(few):
                verify(schedule, size=size, collective=proof.collective, root=root)
    except (CollalgoError, ValueError) as error:
        name = f"{meant.name}: " if isinstance(meant, Algorithm) else ""
        raise click.ClickException(f"{name}{error}") from None
    return proof


def _function(place: str) -> ScheduleFunction:
    """The function of a user's file."""
    name, _, function = place.rpartition(":")
    schedule = getattr(load_named(name), function, None)
    if not callable(schedule):
        raise click.UsageError(f"{name} has no function {function!r}")
    found: ScheduleFunction = schedule
    return found


# The suite lies beside this package, whose part it is only once installed.
bench = importlib.import_module("collalgo.bench.cli")
main.add_command(bench.main, "bench")
main.add_command(bench.tune)
main.add_command(importlib.import_module("collalgo.bench.cluster.cli").main, "cluster")
main.add_command(importlib.import_module("collalgo.topology.cli").main, "topo")
main.add_command(select_command)
main.add_command(bound_command)
main.add_command(calibrate_command)
main.add_command(simulate_command)
main.add_command(doctor_command)
main.add_command(trace_group, "trace")


@main.group(invoke_without_command=True)
@collective_option
@click.option("-n", "--size", type=click.IntRange(1), default=8, help="Ranks.")
@load_option
@click.pass_context
def algorithms(context: click.Context, collective: str | None, size: int) -> None:
    """List the table of algorithms with what is proved of each for some ranks."""
    if context.invoked_subcommand is None:
        console = Console(width=None if Console().is_terminal else 150)
        for name in [collective] if collective else COLLECTIVES:
            console.print(_properties(name, size))


def _properties(collective: str, size: int) -> Table:
    """What is proved of the algorithms for a collective."""
    table = Table(title=f"{collective}, {size} ranks", title_justify="left")
    for name in ("algorithm", "rounds", "sent", "reduced", "links", "roundings"):
        table.add_column(name, justify="left" if name == "algorithm" else "right")
    table.add_column("order")
    table.add_column("story")
    for row in ALGORITHMS:
        if row.collective != collective:
            continue
        if obstacle := row.obstacle(size):
            table.add_row(row.name, *[""] * 6, obstacle)
            continue
        proof = verify(row.schedule, size=size, collective=collective)
        table.add_row(
            row.name,
            str(proof.rounds),
            str(proof.sent),
            str(proof.reduced),
            str(proof.links),
            str(proof.roundings),
            proof.order if COLLECTIVES[collective].reduces else "",
            row.story,
        )
    return table


@algorithms.command()
@click.argument("algorithm")
@collective_option
@click.option("-n", "--size", type=click.IntRange(1), default=8, help="Ranks.")
@click.option("--root", type=click.IntRange(0), default=0, help="The root.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Write a drawing.")
@load_option
def show(
    algorithm: str, collective: str | None, size: int, root: int, svg: str | None
) -> None:
    """Draw the schedule of ALGORITHM, its steps against its ranks.

    ALGORITHM is a name of the table, FILE.py or FILE.py:FUNCTION.
    """
    if root >= size:
        raise click.UsageError(f"root {root} is out of range; there are {size} ranks")
    meant = _meant(algorithm, collective)[0]
    proof = _prove(meant, collective, size)
    schedule = meant.schedule if isinstance(meant, Algorithm) else meant
    schedules = [trace(schedule, rank, size, root) for rank in range(size)]
    if svg is not None:
        Path(svg).write_text(drawing.svg(schedules, f"{algorithm}: {proof}"))
        return
    console = Console(width=None if Console().is_terminal else 24 * (size + 1))
    console.print(f"{algorithm}: {proof}", highlight=False)
    console.print(drawing.table(schedules))
