"""The command ``collalgo tune``."""

import os
import platform
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from collalgo.bench.cells import PLACES
from collalgo.bench.exports import (
    EXPORTS,
    KINDS,
    export_measured,
    export_priced,
    to_follow,
)
from collalgo.bench.jobs import on_each_rank
from collalgo.bench.options import check_borders
from collalgo.bench.records import Record
from collalgo.bench.sweep import Sweep
from collalgo.bench.tuning import RULES, TUNED, gained, nearness, rules_of, text_of

import collalgo
from collalgo.algorithms.catalogue import candidates
from collalgo.base.environment import RULES as RULES_FILE
from collalgo.base.output_files import is_standard_output
from collalgo.base.units import human_time, sizes_between
from collalgo.cli.completing import machines
from collalgo.cli.loading import load_machine
from collalgo.cli.machine import parameters_argument
from collalgo.cli.options import force_option, parse_size, write_or_refuse, writes
from collalgo.engine.transport.waiting import cores
from collalgo.errors import CollalgoError
from collalgo.launch.hosts import MAX_SLOTS
from collalgo.selection.on_topology import TopologyPricer

#: The calls that try each algorithm, and the cycles of calls that compare the fastest.
TRIALS, CYCLES = 5, 4

#: Seconds that it takes to prepare an algorithm of a cell, and that a timed call takes
#: in the mean of all sizes.
PREPARED, CALLED = 0.01, 0.001


@click.command()
@click.argument("file", **writes(RULES, by_option=("export", KINDS)))
@parameters_argument
@force_option
@click.option(
    "--export",
    type=click.Choice(list(EXPORTS)),
    is_eager=True,
    help="Write a tuning file of this library instead: the fastest of its own "
    "algorithms on this host, or with --topology the cheapest.",
)
@click.option(
    "--topology",
    shell_complete=machines,
    help="Topology for --export: WHAT of collalgo topo.",
)
@click.option(
    "-n",
    "-R",
    "--ranks",
    multiple=True,
    type=click.IntRange(2, MAX_SLOTS),
    default=(2, 4),
    help="Number of ranks to measure; repeatable.",
)
@click.option("-b", "first", default="8", callback=parse_size, help="Smallest size.")
@click.option("-e", "last", default="64M", callback=parse_size, help="Largest size.")
@click.option(
    "-f", "factor", default=4, type=click.IntRange(2), help="Factor between sizes."
)
@click.option(
    "--calls", "iterations", type=click.IntRange(1), default=50, help="Timed calls."
)
def tune(
    file: Path,
    parameters: tuple[str, ...],
    force: bool,
    export: str | None,
    topology: str | None,
    ranks: tuple[int, ...],
    first: int,
    last: int,
    factor: int,
    iterations: int,
) -> None:
    """Write rules with the fastest algorithms on this host to FILE.

    All algorithms are measured.

    With COLLALGO_RULES=FILE, calls and collalgo select follow the rules for the
    measured numbers of ranks. Parameters of a topology are given as hosts=4.
    """
    check_borders(first, last)
    if topology is not None:
        _export_priced(export, file, topology, parameters, force)
    elif parameters:
        raise click.UsageError(f"{' '.join(parameters)}: parameters need --topology")
    else:
        todo = Sweep(
            collectives=tuple(PLACES),
            sizes=tuple(sizes_between(first, last, factor)),
            algorithms=("all",),
            iterations=max(iterations // CYCLES, 1),
            long_rows=True,
            trials=TRIALS,
            cycles=CYCLES,
            check=False,
        )
        if export is None:
            _tune(file, ranks, todo, force)
        else:
            export_measured(export, file, ranks, todo, force=force)


def _tune(file: Path, ranks: Sequence[int], todo: Sweep, force: bool) -> None:
    """Measure all algorithms, and write rules with the fastest."""
    records = _measured(todo, ranks)
    click.echo(f"before: {nearness(records)}", err=is_standard_output(file))
    rules = rules_of(records)
    write_or_refuse(
        file, text_of(rules, f"{TUNED} {platform.node()}"), RULES, force=force
    )
    click.echo(f"after: {gained(records, rules)}", err=is_standard_output(file))
    if not is_standard_output(file):
        click.echo(to_follow(file, {RULES_FILE.name: str(file.absolute())}))


def _export_priced(
    export: str | None,
    file: Path,
    topology: str,
    parameters: tuple[str, ...],
    force: bool,
) -> None:
    """Write a tuning file of a peer for a topology."""
    if export is None:
        raise click.UsageError(f"--topology {topology} needs --export")
    try:
        pricer = TopologyPricer(load_machine(topology, parameters))
        export_priced(export, file, pricer, force=force)
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def estimate(sweep: Sweep, ranks: int) -> str:
    """What is measured on a number of ranks, and about how long that takes.

    Ranks share the cores with each other and with the processes that run already.
    """
    cells = list(sweep.cells(ranks))
    calls = sum(len(candidates(cell.collective)) for cell in cells)
    busy = max(1.0, (os.getloadavg()[0] + ranks) / cores())
    seconds = calls * (PREPARED + CALLED * (sweep.iterations or 0)) * busy
    return (
        f"{ranks} ranks: {len(cells)} cells, {calls} algorithms of them, about "
        f"{human_time(seconds)}"
    )


def _measured(todo: Sweep, ranks: Sequence[int]) -> list[Record]:
    """The rows of a sweep for each of these numbers of ranks."""
    records: list[Record] = []
    try:
        for count in ranks:
            click.echo(estimate(todo, count), err=True)
            found = collalgo.spawn(partial(on_each_rank, sweep=todo), count)[0]
            assert found is not None  # rank 0 has the rows
            records += found[0]
    except (CollalgoError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return records
