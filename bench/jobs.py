"""Measure a sweep on all ranks of a job, with a progress bar."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import click
from collalgo.bench.cells import PLACES, Cell, dtype_of
from collalgo.bench.measuring import measure, measure_against
from collalgo.bench.options import sizes_of
from collalgo.bench.peers.contest import BURST, ROUNDS, TRIALS
from collalgo.bench.peers.environments import Peer, installs, peers
from collalgo.bench.records import Record, environment
from collalgo.bench.sweep import Sweep
from rich.console import Console
from rich.progress import Progress

import collalgo
from collalgo.base.units import human, human_time
from collalgo.bootstrap.identity import identity
from collalgo.errors import CollalgoError

#: Rows, and the environment of the measurement.
Measured = tuple[list[Record], dict[str, Any]]


def measured(
    options: dict,  # type: ignore[type-arg]
    places: tuple[str, ...],
    algorithms: tuple[str, ...],
    against: str | None = None,
    long_rows: bool = False,
) -> Measured:
    """Measure on all ranks; the rows are those of rank 0."""
    todo = replace(
        _sweep(options),
        places=places,
        algorithms=algorithms,
        long_rows=long_rows,
        against_mpi=against == "mpi",
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
    except (CollalgoError, MemoryError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return found or ([], {})


def _sweep(options: dict) -> Sweep:  # type: ignore[type-arg]
    """The sweep that the options of a command line ask for."""
    chosen = options["collectives"] or ("allreduce",)
    return Sweep(
        collectives=tuple(PLACES) if "all" in chosen else chosen,
        sizes=tuple(sizes_of(options)),
        dtypes=options["dtypes"],
        op=options["op"],
        root=options["root"],
        iterations=options["iterations"],
        warmup=options["warmup"],
        cycles=options["cycles"],
        check=bool(options["check"]),
        fresh=bool(options["fresh"]),
        fresh_sizes=options.get("fresh_sizes", False),
        in_a_row=options["in_a_row"],
        files=options["files"],
    )


def on_each_rank(comm: collalgo.Communicator, sweep: Sweep) -> Measured | None:
    """Measure on one rank; rank 0 shows the progress and returns the rows."""
    if comm.rank:
        measure(comm, sweep)
        return None
    if text := rounded(sweep):
        click.echo(text, err=True)
    with progress_bar(sweep, comm.size) as progress:
        load = os.getloadavg()[0]
        here = comm.hosts.count(comm.hosts[comm.rank])
        rows = measure(comm, sweep, progress)
        return rows, environment(comm.size, load=load, ranks_here=here)


def raced(against: list[Peer], ranks: int, sweep: Sweep) -> Measured:
    """Measure against peers, from a process that is not a rank."""
    load = os.getloadavg()[0]
    for text in filter(None, (announcement(against, ranks, sweep), rounded(sweep))):
        click.echo(text, err=True)
    with progress_bar(sweep, ranks, sweep.cycles) as progress:
        records, versions = measure_against(against, ranks, sweep, progress)
    more = {"contestants": versions, "load": load, "ranks_here": ranks}
    return records, environment(ranks, **more)


def announcement(against: list[Peer], ranks: int, sweep: Sweep) -> str:
    """The packages to install, the cells to measure, and a rough duration."""
    cells = sweep.cycles * len(list(sweep.cells(ranks)))
    bursts = cells * (len(against) + 1) * (TRIALS + ROUNDS)
    names = ", ".join(peer.name for peer in against)
    least = human_time(bursts * BURST)
    measures = f"measures {cells} cells of collalgo and {names}: {least} or more"
    return "\n".join([*installs(against), measures])


def rounded(sweep: Sweep) -> str:
    """The sizes that are measured as one element of each block; empty without any."""
    if set(sweep.collectives) <= {"barrier"}:
        return ""
    widest = max(dtype_of(name).itemsize for name in sweep.dtypes)
    sizes = [f"{nbytes} B" for nbytes in sweep.sizes if nbytes < widest]
    if not sizes:
        return ""
    return (
        f"{', '.join(sizes)}: an array has at least one element in each block; smaller "
        "sizes are measured as that one"
    )


@contextmanager
def progress_bar(
    sweep: Sweep, ranks: int, cycles: int = 1, total: int | None = None
) -> Iterator[Callable[[Cell], None]]:
    """A progress bar over cells, by default those of a sweep."""
    console = Console(stderr=True)
    # Without a terminal, the end of a bar is an empty line.
    hidden = not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as bar:
        cells = total or cycles * len(list(sweep.cells(ranks)))
        task = bar.add_task("measuring", total=cells)

        def progress(cell: Cell) -> None:
            words = f"{cell.collective} {human(cell.nbytes)}"
            bar.update(task, advance=1, description=words)

        yield progress
