"""The command ``collalgo bench prices``: how far predicted times are from measured."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, permutations
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple

import click
import numpy as np
from collalgo.bench.cells import Cell
from collalgo.bench.corrections import cells, of_cores, seconds_of
from collalgo.bench.records import FOUND, environment, keep, own_command
from rich.table import Table

import collalgo
from collalgo import Communicator
from collalgo.base.console import patience, wide_console
from collalgo.base.units import human, human_time
from collalgo.cli.options import FiniteRange, force_option, parse_sizes, writes
from collalgo.launch.hosts import MAX_SLOTS

#: The default sizes, which lie between those that ``collalgo calibrate`` measures.
SIZES = "8,100,2K,10K,100K,700K,6M,16M"

#: The seconds of the longest pause.
DAY = 86400


class Price(NamedTuple):
    """The predicted and the measured seconds of a cell, and the distance of the cores.

    The price is that of the moment before the measurement.
    """

    collective: str
    ranks: int
    nbytes: int
    round: int
    algorithm: str
    predicted: float
    measured: float
    distance: float

    @property
    def error(self) -> float:
        """The difference of both, as a part of the measured time."""
        return abs(self.predicted - self.measured) / self.measured


def prices_of(comm: Communicator, sizes: Sequence[int], number: int) -> list[Price]:
    """The prices and the times of all cells once, on all ranks."""
    return [_price(comm, cell, number) for cell in cells(comm.size, sizes)]


def _price(comm: Communicator, cell: Cell, number: int) -> Price:
    nbytes = cell.counts(comm.size)[1] * np.dtype(cell.dtype).itemsize
    apart = of_cores(comm)
    chosen = comm.select(cell.collective, nbytes)
    seconds = seconds_of(comm, cell)
    found = cell.collective, comm.size, nbytes, number, chosen.algorithm
    return Price(*found, chosen.seconds, seconds, apart)


def errors(found: Sequence[Price]) -> tuple[float, float]:
    """The median and the 95th percentile of the errors."""
    median, most = np.percentile([one.error for one in found], [50, 95])
    return float(median), float(most)


def spread(found: Sequence[Price]) -> float | None:
    """The median error of a round as the prediction of another of the same cell.

    It is that of all pairs, in both orders; None with one round.
    """
    cells: dict[tuple[Any, ...], list[float]] = {}
    for one in found:
        cell = one.collective, one.ranks, one.nbytes
        cells.setdefault(cell, []).append(one.measured)
    pairs = chain.from_iterable(permutations(times, 2) for times in cells.values())
    parts = [abs(first - other) / other for first, other in pairs]
    return float(np.median(parts)) if parts else None


def worst(found: Sequence[Price], most: int) -> Iterator[str]:
    """The cells with the largest median errors, with their times."""
    cells: dict[tuple[Any, ...], list[Price]] = {}
    for one in found:
        cells.setdefault((one.collective, one.ranks, one.nbytes), []).append(one)
    rows = [(errors(some)[0], key, some) for key, some in cells.items()]
    for error, (collective, ranks, nbytes), some in sorted(rows, reverse=True)[:most]:
        predicted, measured = (
            float(np.median([getattr(one, name) for one in some]))
            for name in ("predicted", "measured")
        )
        yield (
            f"{collective} of {human(nbytes)} on {ranks} ranks: predicted "
            f"{human_time(predicted)}, measured {human_time(measured)} (error "
            f"{error:.0%})"
        )


@click.command()
@click.option(
    "-n",
    "-R",
    "--ranks",
    "ranks",
    type=click.IntRange(2, MAX_SLOTS),
    multiple=True,
    default=(2, 4, 8),
    help="Number of ranks; repeat it for several.",
)
@click.option(
    "-s",
    "--size",
    "sizes",
    default=SIZES,
    callback=parse_sizes,
    help="Sizes in bytes: a list 1M,256M or ranges 1K..1G.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=3,
    help="Measurements of each cell.",
)
@click.option(
    "--pause",
    type=FiniteRange(0, DAY),
    default=0.0,
    help="Seconds between rounds, in which the machine may change.",
)
@click.option(
    "--worst",
    "most",
    type=click.IntRange(0),
    default=10,
    help="Number of cells with the largest errors to list.",
)
@click.option("--json", "file", **writes(FOUND), help="Also write the rows to a file.")
@force_option
def prices(
    ranks: Sequence[int], sizes: Sequence[int], rounds: int, pause: float,
    most: int, file: Path | None, force: bool,
) -> None:  # fmt: skip
    """Compare predicted with measured times of all collectives on this host.

    The error is the difference as a part of the measured time. Run collalgo calibrate
    before, or prices are made of a few figures of the machine.
    """
    found: list[Price] = []
    with patience("measuring") as tell:
        for number in range(rounds):
            sleep(pause if number else 0)
            for size in ranks:
                tell(f"measuring: round {number + 1} of {rounds}, {size} ranks")
                found += _on_ranks(partial(prices_of, sizes=sizes, number=number), size)
    _show(found)
    for line in worst(found, most):
        click.echo(line)
    if file is not None:
        about = {"command": own_command(), "environment": environment(max(ranks))}
        rows = [one._asdict() for one in found]
        keep(file, {**about, "prices": rows}, force=force)


def _on_ranks(work: Callable[[Communicator], list[Price]], size: int) -> list[Price]:
    found: list[Price] = collalgo.spawn(work, size)[0]
    return found


def _show(found: Sequence[Price]) -> None:
    """Print the errors of each number of ranks, by distance of the cores."""
    title = "errors of predicted times (less is better)"
    table = Table(title=title, box=None)
    columns = "ranks", "handoffs", "times", "median", "95th percentile", "of rounds"
    for name in columns:
        table.add_column(name, justify="right")
    for size in dict.fromkeys(one.ranks for one in found):
        some = [one for one in found if one.ranks == size]
        apart = [one.distance for one in some]
        handoffs = f"{human_time(min(apart))} to {human_time(max(apart))}"
        others = spread(some)
        shown = [f"{error:.1%}" for error in errors(some)]
        shown.append("" if others is None else f"{others:.1%}")
        table.add_row(str(size), handoffs, str(len(some)), *shown)
    wide_console().print(table)
