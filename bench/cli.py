"""The command ``collalgo bench``."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from collalgo.bench.cells import PLACES
from collalgo.bench.choices import verdict, winners
from collalgo.bench.compare import compare as compare_rows, nothing_in_common
from collalgo.bench.inference import inference
from collalgo.bench.invariance import command as invariance
from collalgo.bench.job_commands import groups, limits, sizes, start
from collalgo.bench.jobs import measured
from collalgo.bench.options import split_names, sweep_options
from collalgo.bench.page import Results
from collalgo.bench.plot import plot as draw
from collalgo.bench.prices import prices
from collalgo.bench.records import (
    CSV,
    RESULTS,
    Record,
    as_csv,
    as_json,
    of_json,
    own_command,
)
from collalgo.bench.report import (
    conditions_in_words,
    legend,
    micro,
    rivals,
    summary,
    tables,
)
from collalgo.bench.timing import overhead
from rich.console import Console
from rich.table import Table
from rich.text import Text

import collalgo
from collalgo.base.console import wide_console
from collalgo.base.output_files import is_standard_output
from collalgo.base.page import PAGE
from collalgo.cli import completing
from collalgo.cli.group import SETTINGS, Group
from collalgo.cli.options import FiniteRange, force_option, write_or_refuse
from collalgo.cli.words import epilog
from collalgo.errors import CollalgoError


class Default(Group):
    """A command group with ``run`` as its default command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {*self.commands, *SETTINGS["help_option_names"]}
        completes = ctx.resilient_parsing and not args
        if not completes and (not args or args[0] not in known):
            args.insert(0, "run")
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> completing.Offers:
        """Commands, and what follows the default command without its name."""
        run = self.commands["run"]
        within = run.make_context("run", [], ctx, resilient_parsing=True)
        collectives = next(p for p in run.params if p.name == "collectives")
        option = incomplete.startswith("-")
        more = (run if option else collectives).shell_complete(within, incomplete)
        return [*super().shell_complete(ctx, incomplete), *more]


#: The words of the tables that the help explains.
SAID = (
    "time", "p50, p95, p99", "algbw", "busbw", "predicted", "roughly", "floor", "sent",
    "fresh", "wrong", "why", "one_shot, two_shot, ...",
)  # fmt: skip
SAID_OF_PEERS = ("x ours", "best x", "mpich-rg, openmpi-sm, openmpi-nocma")


@click.group("bench", cls=Default, context_settings=SETTINGS)
def main() -> None:
    """Measure collectives, and compare results.

    Without a command, run is used; collalgo bench run --help lists its options.
    """


@main.command("run", epilog=epilog(*SAID, *SAID_OF_PEERS))
@sweep_options
@click.option(
    "-a", "algorithms", default=None, shell_complete=completing.algorithm_lists,
    help="Algorithms, separated by commas.",
)  # fmt: skip
@click.option(
    "-p", "--place", type=click.Choice(["out", "in", "both"]), default="out",
    help="Out of place, in place, or both.",
)  # fmt: skip
@click.option(
    "--fresh-sizes/--no-fresh-sizes",
    default=True,
    help="Also time first calls with new sizes near that of each row (column fresh "
    "us).",
)
@click.option(
    "--against",
    metavar="PEERS",
    shell_complete=completing.rivals,
    help="Libraries to compare with. mpi: the mpi4py of this job. openmpi, mpich, "
    "intelmpi, gloo, separated by commas, or all: install and run each on --ranks "
    "processes. openmpi:FILE or mpich:FILE: with its defaults, and with a tuning file.",
)
def run(
    place: str, algorithms: str | None, against: str | None, **options: Any
) -> None:
    """Measure COLLECTIVES (default: allreduce) from the smallest to the largest size.

    Runs on the ranks of collalgo run, mpiexec or torchrun; without a launcher, on
    --ranks processes of this host. With --against mpi both libraries are timed
    alternately in the same processes.
    """
    places = ("out", "in") if place == "both" else (place,)
    names = split_names(algorithms)
    records, conditions = measured(options, places, names, against)
    if records:
        console = tables_console(options)
        for line in (
            *conditions_in_words(conditions),
            *legend(records, conditions, predicted=against in (None, "mpi")),
        ):
            console.print(line, highlight=False)
        shown = tables(records) if against in (None, "mpi") else [rivals(records)]
        for table in shown:
            console.print(table)
            console.print()
        for line in summary(records):
            console.print(line, highlight=False)
        console.print(f"overhead of a call (8 bytes, one rank): {micro(alone())} us")
        write_files(options, records, conditions, shown)
        sys.exit(any(record.wrong for record in records))


@main.command(epilog=epilog(*SAID))
@sweep_options
@click.option(
    "--algorithms", default="all", shell_complete=completing.algorithm_lists,
    help="Algorithms, separated by commas, or all.",
)  # fmt: skip
def sweep(algorithms: str, **options: Any) -> None:
    """Compare algorithms side by side, and report the fastest of each cell."""
    names = split_names(algorithms)
    records, conditions = measured(options, ("out",), names, long_rows=True)
    if records:
        console = tables_console(options)
        for line in conditions_in_words(conditions):
            console.print(line, highlight=False)
        best = winners(records)
        console.print(best)
        for line in verdict(records):
            console.print(line, highlight=False)
        write_files(options, records, conditions, [best, *tables(records)])


#: The options of files, any of which may be standard output.
FILES = ("json_file", "csv_file", "plot_file", "html_file")


def tables_console(options: dict[str, Any]) -> Console:
    """The console for tables: standard error if results go to standard output."""
    files = [options[name] for name in FILES]
    return wide_console(stderr=any(map(is_standard_output, files)))


def write_files(
    options: dict[str, Any],
    records: Sequence[Record],
    conditions: dict[str, Any],
    shown: Sequence[Table],
) -> None:
    """Write the requested files, after the tables, which survive an error here."""
    force = options["force"]
    if path := options["json_file"]:
        write_or_refuse(path, as_json(records, conditions), RESULTS, force=force)
    if path := options["csv_file"]:
        write_or_refuse(path, as_csv(records), CSV, force=force)
    if path := options["plot_file"]:
        draw_or_refuse({"": records}, path, force=force)
    if path := options["html_file"]:
        found = Results(records, {"command": own_command(), **conditions})
        write_or_refuse(path, found.page(shown), PAGE, force=force)


def draw_or_refuse(
    results: Mapping[str, Sequence[Record]], path: Path, *, force: bool
) -> None:
    """Write a plot; an error ends the command with its message."""
    try:
        draw(results, path, force=force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def alone() -> float:
    """The seconds of an 8-byte call on a world of one rank."""
    return collalgo.threads(overhead, 1)[0]


@main.command()
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--tolerance",
    type=FiniteRange(0),
    default=0.05,
    help="Ratios within this distance of 1 count as equal.",
)
def compare(old: Path, new: Path, tolerance: float) -> None:
    """Compare the cells of NEW with those of OLD: slower, faster or the same.

    The algorithm is part of a cell; to compare algorithms, measure them in one run, as
    by collalgo bench -a ring,two_shot. The exit code is 1 if any cell is slower.
    """
    try:
        before, after = of_json(old), of_json(new)
        verdicts = compare_rows(before, after, tolerance)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if not verdicts:
        raise click.ClickException(nothing_in_common(before, after))
    table = Table(box=None, pad_edge=False)
    for name in ("cell", "algorithm", "new / old", "95 % interval", "verdict"):
        table.add_column(name, no_wrap=True)
    colors = {"slower": "red", "faster": "green", "same": ""}
    for one in verdicts:
        cell = " ".join(str(part) for part in one.cell if part != "")
        interval = f"{one.low:.3f} to {one.high:.3f}"
        words = Text(one.verdict, colors[one.verdict])
        table.add_row(cell, one.algorithm, f"{one.ratio:.3f}", interval, words)
    wide_console().print(table)
    sys.exit(any(one.verdict == "slower" for one in verdicts))


@main.command()
@click.argument(
    "words", nargs=-1, required=True, metavar="RESULTS... PICTURE [COLLECTIVE]...",
    shell_complete=completing.files,
)  # fmt: skip
@force_option
def plot(words: tuple[str, ...], force: bool) -> None:
    """Plot RESULTS (files written by --json) to PICTURE; by default all COLLECTIVES.

    Each of several RESULTS becomes a line of the same plot.
    """
    files, picture, chosen = _parts(words)
    stems = [Path(file).stem for file in files]
    names = stems if len(set(stems)) == len(stems) else files
    try:
        found = {
            name: [r for r in of_json(Path(file)) if r.collective in chosen]
            for name, file in zip(names, files, strict=True)
        }
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    draw_or_refuse(found, Path(picture), force=force)


def _parts(words: tuple[str, ...]) -> tuple[Sequence[str], str, Sequence[str]]:
    """The files of results, the picture, and the collectives of a command line."""
    files = [*words]
    chosen = []
    while files and files[-1] in PLACES:
        chosen.append(files.pop())
    if len(files) < 2:
        raise click.UsageError(
            "name the results and then the picture: collalgo bench plot RESULTS... "
            "PICTURE"
        )
    return files[:-1], files[-1], chosen or tuple(PLACES)


for command in (start, limits, groups, sizes, inference, invariance, prices):
    main.add_command(command)
