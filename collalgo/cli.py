"""The command ``collalgo``."""

import importlib.util
import shutil
import sys
from pathlib import Path

import click

from collalgo.algorithms import ALGORITHMS
from collalgo.collective import COLLECTIVES
from collalgo.errors import CollalgoError
from collalgo.launch.run import run as run_ranks
from collalgo.schedule import ScheduleFunction
from collalgo.select import select
from collalgo.verify import verify

#: Sizes for which ``collalgo verify`` proves an algorithm, unless told otherwise.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="collalgo")
def main() -> None:
    """Collective communication: run it, prove it, choose it, measure it."""


@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("-n", "size", type=click.IntRange(1), required=True, help="Ranks.")
@click.option("-m", "module", is_flag=True, help="COMMAND is a Python module.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(size: int, module: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND (a Python script, or any program) on every rank of this host."""
    if module:
        command = (sys.executable, "-m", *command)
    elif command[0].endswith(".py"):
        command = (sys.executable, *command)
    if shutil.which(command[0]) is None:
        raise click.UsageError(f"there is no program {command[0]!r}")
    sys.exit(run_ranks(command, size))


@main.command("verify")
@click.argument("algorithm")
@click.option("-c", "--collective", type=click.Choice(list(COLLECTIVES)))
@click.option("-n", "--size", "sizes", type=click.IntRange(1), multiple=True)
def verify_command(
    algorithm: str, collective: str | None, sizes: tuple[int, ...]
) -> None:
    """Prove ALGORITHM: a name of the table, or FILE.py:FUNCTION.

    Every root is proved for each size; without --size, for several up to 17.
    """
    schedule = _load(algorithm) if ".py:" in algorithm else algorithm
    for size in sizes or SIZES:
        try:
            proof = verify(schedule, size=size, collective=collective)
            rooted = COLLECTIVES[proof.collective].rooted
            for root in range(1, size if rooted else 1):
                verify(schedule, size=size, collective=collective, root=root)
        except (CollalgoError, ValueError) as error:
            raise click.ClickException(str(error)) from None
        click.echo(proof)


def _load(place: str) -> ScheduleFunction:
    """The function of a user's file."""
    name, _, function = place.rpartition(":")
    if not Path(name).is_file():
        raise click.UsageError(f"there is no file {name!r}")
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    schedule = getattr(module, function, None)
    if not callable(schedule):
        raise click.UsageError(f"{name} has no function {function!r}")
    found: ScheduleFunction = schedule
    return found


@main.command("select")
@click.argument("collective", type=click.Choice(list(COLLECTIVES)))
@click.argument("nbytes", type=click.IntRange(0))
@click.option("-n", "--size", type=click.IntRange(1), required=True, help="Ranks.")
def select_command(collective: str, nbytes: int, size: int) -> None:
    """Say which algorithm would run here, with the prices of all."""
    click.echo(select(collective, nbytes, size=size).explain())


@main.command()
def algorithms() -> None:
    """List the table of algorithms."""
    for row in ALGORITHMS:
        story = (row.schedule.__doc__ or "").splitlines()[0]
        click.echo(f"{row.collective:15} {row.name:20} {story}")
