"""The commands of ``collalgo bench`` without a sweep: figures of jobs and machines."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, TypeVar

import click
from collalgo.bench.groups import COLUMNS, groups as measure_groups
from collalgo.bench.limits import Limit, hand_over, limits as measure_limits
from collalgo.bench.report import micro
from collalgo.bench.sizes import sizes as measure_sizes
from collalgo.bench.start import measure_starts, phases_in_words
from rich.table import Table

import collalgo
from collalgo import Communicator
from collalgo.base.console import wide_console
from collalgo.base.units import human
from collalgo.bootstrap.identity import Route, identity
from collalgo.launch.hosts import MAX_SLOTS

T = TypeVar("T")


def _ranks_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    ranks = click.IntRange(1, MAX_SLOTS)
    return click.option("-n", "-R", "--ranks", type=ranks, default=2, help=text)


ranks_option = _ranks_option("Number of ranks.")

#: The option of commands that call :func:`on_ranks`.
spawned_ranks_option = _ranks_option("Number of ranks, without a launcher.")


def on_ranks(work: Callable[[Communicator], T], ranks: int) -> tuple[T, int] | None:
    """Do work on the ranks of the launcher, or without one on processes of this host.

    The result of rank 0 and the number of ranks; None in the processes of all others.
    """
    if identity().launcher == "none":
        return collalgo.spawn(work, ranks)[0], ranks
    comm = collalgo.init()
    found = work(comm)
    return None if comm.rank else (found, comm.size)


@click.command()
@ranks_option
@click.option(
    "--runs",
    "rounds",
    type=click.IntRange(1),
    default=5,
    help="Number of runs of each job.",
)
def start(ranks: int, rounds: int) -> None:
    """Measure the start and the end of an empty job, and that of mpiexec if found."""
    try:
        found = measure_starts(ranks, rounds)
    except (OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from None
    table = Table(
        title=f"jobs of {ranks} ranks on this host, ms of {rounds} runs (less is "
        "better)",
        box=None,
    )
    table.add_column("job")
    for name in ("median", "least"):
        table.add_column(name, justify="right")
    for one in found:
        figures = (median(one.seconds), min(one.seconds))
        table.add_row(one.name, *(f"{1e3 * seconds:.0f}" for seconds in figures))
    wide_console().print(table)
    for one in found:
        if one.phases:
            click.echo(phases_in_words(one))


@click.command()
@ranks_option
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
    wide_console().print(table)
    click.echo(f"a barrier takes {micro(found[1])} us")


def limits_on_each_rank(comm: Communicator) -> tuple[list[Limit], float]:
    """Measure all limits; the result is the same on each rank."""
    return measure_limits(comm), hand_over(comm)


@click.command()
@spawned_ranks_option
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=50,
    help="Repetitions of each measurement.",
)
def groups(ranks: int, rounds: int) -> None:
    """Measure split, dup and group, and the first two calls in the new group.

    Runs on the ranks of collalgo run or mpiexec, and under mpiexec alternately with
    mpi4py; without a launcher, on --ranks processes of this host.
    """
    mpi = identity().route is Route.MPI
    done = on_ranks(partial(measure_groups, rounds=rounds, mpi=mpi), ranks)
    if done is None:
        return
    found, size = done
    table = _table_of_slowest(size, "group", ("library", *COLUMNS))
    for row in sorted(found, key=lambda row: row.name):
        table.add_row(row.name, row.library, *map(micro, row.seconds))
    wide_console().print(table)


@click.command()
@spawned_ranks_option
@click.option(
    "--most",
    type=click.IntRange(2),
    show_default="61, or 13 of long arrays",
    help="Use at most as many sizes in each row, of which the first is known.",
)
def sizes(ranks: int, most: int | None) -> None:
    """Compare calls of sizes never seen with the same calls again, in all collectives.

    Runs on the ranks of collalgo run or mpiexec, and under mpiexec also measures
    mpi4py; without a launcher, on --ranks processes of this host. The column `block`
    is the size of a rank's block in bytes, around which sizes are drawn; `seen` the
    time of a call whose size was used before; `added` the time that the first call of
    a size takes longer than that; `mpi4py` the time of the same calls of mpi4py.
    """
    mpi = identity().route is Route.MPI
    done = on_ranks(partial(measure_sizes, mpi=mpi, most=most), ranks)
    if done is None:
        return
    found, size = done
    names = ("block", "seen", "added", *["mpi4py"] * mpi)
    table = _table_of_slowest(size, "collective", names)
    for row in found:
        times = map(micro, (row.seen, row.added, *[row.mpi] * mpi))
        table.add_row(row.collective, human(row.nbytes), *times)
    wide_console().print(table)


def _table_of_slowest(size: int, first: str, names: Sequence[str]) -> Table:
    """A table of times in us, with a name in the first column."""
    title = f"{size} ranks, us of the slowest, median (less is better)"
    table = Table(title=title, box=None)
    table.add_column(first)
    for name in names:
        table.add_column(name, justify="right")
    return table
