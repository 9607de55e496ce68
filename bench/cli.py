"""The command ``collalgo bench``."""

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from collalgo.bench.cells import PLACES, Cell
from collalgo.bench.compare import compare as compare_rows
from collalgo.bench.limits import Limit, hand_over, limits as measure_limits
from collalgo.bench.measuring import Sweep, measure, measure_against
from collalgo.bench.peers.environments import Peer, peers
from collalgo.bench.plot import plot as draw
from collalgo.bench.records import (
    CSV,
    RESULTS,
    Record,
    as_csv,
    as_json,
    environment,
    of_json,
)
from collalgo.bench.report import micro, rivals, summary, tables, verdict, winners
from collalgo.bench.timing import overhead
from collalgo.bench.tuning import RULES, TUNED, rules_of, text_of
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import collalgo
from collalgo.base.console import wide_console
from collalgo.base.output_files import is_standard_output
from collalgo.base.plotting import PICTURE
from collalgo.base.units import human, parse_size
from collalgo.bootstrap.identity import identity
from collalgo.cli.options import force_option, write_or_refuse, writes
from collalgo.engine.reduction import DTYPES, OPS
from collalgo.errors import CollalgoError

WIDTH = 180

#: Rows, and the environment of the measurement.
Measured = tuple[list[Record], dict[str, Any]]


class Default(click.Group):
    """A command group with ``run`` as its default command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in HELP):
            args.insert(0, "run")
        return super().parse_args(ctx, args)


HELP = ("-h", "--help")


@click.group(cls=Default, context_settings={"help_option_names": list(HELP)})
def main() -> None:
    """Measure collectives, and compare results."""


def parse_names(
    _context: object, parameter: click.Parameter, text: str
) -> tuple[str, ...]:
    """Parse names separated by commas, or ``all``."""
    known = {"dtypes": DTYPES}.get(str(parameter.name), ())
    names = tuple(known) if text == "all" and known else tuple(text.split(","))
    for name in names:
        if known and name not in known:
            raise click.BadParameter(f"{name!r}: choose from {', '.join(known)}")
    return names


def parse_root(_context: object, _parameter: object, text: str) -> int | None:
    """Parse a rank; None for ``all``."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is no rank; write a number, or all")
    return int(text)


def split_names(text: str | None) -> tuple[str, ...]:
    """Split names at commas outside of brackets.

    >>> split_names("ring,torus_2d(dims=(2, 3)),bine")
    ('ring', 'torus_2d(dims=(2, 3))', 'bine')
    """
    names, depth = [""], 0
    for letter in text or "":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    return tuple(filter(None, names))


def sizes(first: int, last: int, factor: int) -> tuple[int, ...]:
    """The sizes of a sweep, in bytes."""
    steps = [first]
    while 0 < steps[-1] * factor <= last:
        steps.append(steps[-1] * factor)
    return tuple(steps)


SIZES = [
    click.option(
        "-b", "first", default="8", callback=parse_size,
        help="Smallest size in bytes; by default 8.",
    ),
    click.option(
        "-e", "last", default="64M", callback=parse_size,
        help="Largest size in bytes; by default 64M.",
    ),
    click.option(
        "-f", "factor", default=2, type=click.IntRange(2),
        help="Factor between sizes; by default 2.",
    ),
    click.option(
        "-d", "dtypes", default="float32", callback=parse_names,
        help="dtypes, separated by commas, or all; by default float32.",
    ),
    click.option("-o", "op", default="sum", type=click.Choice([*OPS, "all"])),
    click.option(
        "-r", "root", default="0", callback=parse_root,
        help="The root rank, or all; by default 0.",
    ),
    click.option(
        "-n", "iterations", type=click.IntRange(1),
        help="Timed calls in a cycle; by default as many as fit into 0.4 s.",
    ),
    click.option(
        "-w", "warmup", type=click.IntRange(0), default=2,
        help="Warm-up calls; by default 2.",
    ),
    click.option(
        "-N", "cycles", type=click.IntRange(1), default=1,
        help="Cycles of each cell; by default 1.",
    ),
    click.option(
        "-c", "check", type=click.IntRange(0, 1), default=1,
        help="Check the results (1, the default) or not (0).",
    ),
    click.option(
        "--fresh", type=click.IntRange(0, 1), default=1,
        help="Write the input before each call (1, the default), or not (0).",
    ),
    click.option(
        "-m", "in_a_row", type=click.IntRange(1),
        help="Calls timed together; by default 1, for barriers 16, and in a sweep as "
        "many as take 100 us in collectives where no rank can run ahead.",
    ),
    click.option(
        "-R", "--ranks", type=click.IntRange(1), help="Start this number of ranks."
    ),
    click.option(
        "-l", "--load", "files", multiple=True, type=click.Path(exists=True),
        help="Load algorithms: Python with @collalgo.algorithm, or MSCCL XML.",
    ),
    click.option("-J", "--json", "json_file", **writes(RESULTS, by_ranks=True)),
    click.option("--csv", "csv_file", **writes(CSV, by_ranks=True)),
    click.option("--plot", "plot_file", **writes(PICTURE, by_ranks=True)),
    force_option,
]  # fmt: skip


def sweep_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all sweeps to a command."""
    for option in reversed(SIZES):
        command = option(command)
    names = click.Choice([*PLACES, "all"])
    return click.argument("collectives", nargs=-1, type=names)(command)


@main.command("run")
@sweep_options
@click.option("-a", "algorithms", default=None, help="Algorithms, separated by commas.")
@click.option(
    "-p", "--place", type=click.Choice(["out", "in", "both"]), default="out",
    help="Out of place, in place, or both.",
)  # fmt: skip
@click.option(
    "--against",
    metavar="PEERS",
    help="mpi: compare with the mpi4py of this job. openmpi, mpich, intelmpi, gloo, "
    "separated by commas, or all: install each and compare on --ranks processes.",
)
def run(
    place: str, algorithms: str | None, against: str | None, **options: Any
) -> None:
    """Measure COLLECTIVES (by default allreduce) from the smallest size to the largest.

    Runs on the ranks of collalgo run, mpiexec or torchrun; without a launcher, on
    --ranks processes of this host. With --against mpi both libraries are timed
    alternately in the same processes.
    """
    places = ("out", "in") if place == "both" else (place,)
    names = split_names(algorithms)
    records, conditions = measured(options, places, names, against)
    if records:
        console = tables_console(options)
        for table in tables(records) if against in (None, "mpi") else [rivals(records)]:
            console.print(table)
            console.print()
        for line in summary(records):
            console.print(line, highlight=False)
        console.print(f"an 8-byte call on one rank takes {micro(alone())} us")
        write_files(options, records, conditions)
        sys.exit(any(record.wrong for record in records))


@main.command()
@sweep_options
@click.option(
    "--algorithms", default="all", help="Algorithms, separated by commas, or all."
)
def sweep(algorithms: str, **options: Any) -> None:
    """Compare algorithms side by side, and report the fastest of each cell."""
    names = split_names(algorithms)
    records, conditions = measured(options, ("out",), names, long_rows=True)
    if records:
        console = tables_console(options)
        console.print(winners(records))
        for line in verdict(records):
            console.print(line, highlight=False)
        write_files(options, records, conditions)


def tables_console(options: dict[str, Any]) -> Console:
    """The console for tables: standard error if results go to standard output."""
    files = [options[name] for name in ("json_file", "csv_file", "plot_file")]
    return wide_console(WIDTH, stderr=any(map(is_standard_output, files)))


def write_files(
    options: dict[str, Any], records: Sequence[Record], conditions: dict[str, Any]
) -> None:
    """Write the requested files, after the tables, which survive an error here."""
    force = options["force"]
    if path := options["json_file"]:
        write_or_refuse(path, as_json(records, conditions), RESULTS, force=force)
    if path := options["csv_file"]:
        write_or_refuse(path, as_csv(records), CSV, force=force)
    if path := options["plot_file"]:
        draw_or_refuse(records, path, force=force)


def draw_or_refuse(records: Sequence[Record], path: Path, *, force: bool) -> None:
    """Write a plot; an error ends the command with its message."""
    try:
        draw(records, path, force=force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def measured(
    options: dict,  # type: ignore[type-arg]
    places: tuple[str, ...],
    algorithms: tuple[str, ...],
    against: str | None = None,
    long_rows: bool = False,
) -> Measured:
    """Measure on all ranks; the rows are those of rank 0."""
    chosen = options["collectives"] or ("allreduce",)
    todo = Sweep(
        collectives=tuple(PLACES) if "all" in chosen else chosen,
        sizes=sizes(options["first"], options["last"], options["factor"]),
        dtypes=options["dtypes"],
        op=options["op"],
        root=options["root"],
        places=places,
        algorithms=algorithms,
        iterations=options["iterations"],
        warmup=options["warmup"],
        cycles=options["cycles"],
        check=bool(options["check"]),
        fresh=bool(options["fresh"]),
        in_a_row=options["in_a_row"],
        long_rows=long_rows,
        against_mpi=against == "mpi",
        files=options["files"],
    )
    work = partial(on_each_rank, sweep=todo)
    found: Measured | None
    try:
        if against not in (None, "mpi"):
            found = raced(peers(against), options["ranks"] or 2, todo)
        elif identity().launcher == "none" and options["ranks"]:
            found = collalgo.spawn(work, options["ranks"])[0]
        else:
            found = work(collalgo.init())
    except (CollalgoError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return found or ([], {})


def on_each_rank(comm: collalgo.Communicator, sweep: Sweep) -> Measured | None:
    """Measure on one rank; rank 0 shows the progress and returns the rows."""
    if comm.rank:
        measure(comm, sweep)
        return None
    with progress_bar(sweep, comm.size) as progress:
        return measure(comm, sweep, progress), environment(comm.size)


def raced(against: list[Peer], ranks: int, sweep: Sweep) -> Measured:
    """Measure against peers, from a process that is not a rank."""
    with progress_bar(sweep, ranks, sweep.cycles) as progress:
        records, versions = measure_against(against, ranks, sweep, progress)
    return records, environment(ranks, contestants=versions)


@contextmanager
def progress_bar(
    sweep: Sweep, ranks: int, cycles: int = 1
) -> Iterator[Callable[[Cell], None]]:
    """A progress bar over cells."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=cycles * len(list(sweep.cells(ranks))))

        def progress(cell: Cell) -> None:
            words = f"{cell.collective} {human(cell.nbytes)}"
            bar.update(task, advance=1, description=words)

        yield progress


def alone() -> float:
    """The seconds of an 8-byte call on a world of one rank."""
    return collalgo.threads(overhead, 1)[0]


@click.command()
@click.argument("file", **writes(RULES))
@force_option
@click.option(
    "-R",
    "--ranks",
    multiple=True,
    type=click.IntRange(2),
    default=(2, 4),
    help="The number of ranks to measure; may be repeated.",
    show_default=True,
)
@click.option("-b", "first", default="8", callback=parse_size, help="Smallest size.")
@click.option("-e", "last", default="64M", callback=parse_size, help="Largest size.")
@click.option(
    "-f", "factor", default=4, type=click.IntRange(2), help="Factor between sizes."
)
@click.option(
    "-n", "iterations", type=click.IntRange(1), default=50, help="Timed calls."
)
def tune(
    file: Path,
    force: bool,
    ranks: tuple[int, ...],
    first: int,
    last: int,
    factor: int,
    iterations: int,
) -> None:
    """Measure all algorithms on this host, and write rules with the fastest to FILE.

    With COLLALGO_RULES=FILE, calls and collalgo select follow the rules for the
    measured numbers of ranks.
    """
    todo = Sweep(
        collectives=tuple(PLACES),
        sizes=sizes(first, last, factor),
        algorithms=("all",),
        iterations=iterations,
        long_rows=True,
        check=False,
    )
    records: list[Record] = []
    try:
        for count in ranks:
            found = collalgo.spawn(partial(on_each_rank, sweep=todo), count)[0]
            assert found is not None  # rank 0 has the rows
            records += found[0]
    except (CollalgoError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    for line in verdict(records):
        click.echo(f"before: {line}", err=is_standard_output(file))
    text = text_of(rules_of(records), f"{TUNED} {platform.node()}")
    write_or_refuse(file, text, RULES, force=force)
    if not is_standard_output(file):
        click.echo(f"set COLLALGO_RULES={file} to follow them")


@main.command()
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--tolerance", default=0.05, help="Ratios within this distance of 1 count as equal."
)
def compare(old: Path, new: Path, tolerance: float) -> None:
    """Compare the cells of NEW with those of OLD: slower, faster or the same.

    The exit code is 1 if any cell is slower.
    """
    try:
        verdicts = compare_rows(of_json(old), of_json(new), tolerance)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if not verdicts:
        raise click.ClickException("the files have no cell in common")
    table = Table(box=None, pad_edge=False)
    for name in ("cell", "algorithm", "new / old", "95 % interval", "verdict"):
        table.add_column(name, no_wrap=True)
    colors = {"slower": "[red]", "faster": "[green]", "same": ""}
    for one in verdicts:
        cell = " ".join(str(part) for part in one.cell if part != "")
        interval = f"{one.low:.3f} to {one.high:.3f}"
        words = f"{colors[one.verdict]}{one.verdict}"
        table.add_row(cell, one.algorithm, f"{one.ratio:.3f}", interval, words)
    wide_console(WIDTH).print(table)
    sys.exit(any(one.verdict == "slower" for one in verdicts))


@main.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", **writes(PICTURE))
@click.argument("collectives", nargs=-1, type=click.Choice(list(PLACES)))
@force_option
def plot(
    results: Path, picture: Path, collectives: tuple[str, ...], force: bool
) -> None:
    """Plot RESULTS, a file of --json, to PICTURE; by default all COLLECTIVES."""
    chosen = collectives or tuple(PLACES)
    try:
        records = [r for r in of_json(results) if r.collective in chosen]
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    draw_or_refuse(records, picture, force=force)


@main.command()
@click.option(
    "-R", "--ranks", type=click.IntRange(1), default=2, help="The number of ranks."
)
def limits(ranks: int) -> None:
    """Measure the limits of the machine: copies, sums, reads and a barrier.

    The column `read` is the bandwidth of reading data that another rank just wrote.
    """
    found = collalgo.spawn(limits_on_each_rank, ranks)[0]
    table = Table(
        title=f"{ranks} concurrent ranks, GB/s read and written (more is better)",
        box=None,
    )
    kernels = list(dict.fromkeys(limit.kernel for limit in found[0]))
    table.add_column("size", justify="right")
    for kernel in kernels:
        table.add_column(kernel, justify="right")
    for nbytes in dict.fromkeys(limit.nbytes for limit in found[0]):
        at = {x.kernel: x.bandwidth for x in found[0] if x.nbytes == nbytes}
        table.add_row(human(nbytes), *(f"{at[k] / 1e9:.1f}" for k in kernels))
    wide_console(WIDTH).print(table)
    click.echo(f"a barrier takes {micro(found[1])} us")


def limits_on_each_rank(comm: collalgo.Communicator) -> tuple[list[Limit], float]:
    """Measure all limits; the result is the same on each rank."""
    return measure_limits(comm), hand_over(comm)
