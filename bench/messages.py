"""Benchmark messages between two ranks, compared with the MPI of the job.

Run by a launcher, by that of an MPI to compare with its messages::

    collalgo run -n 2 -m collalgo.bench.messages
    mpiexec -n 2 python -m collalgo.bench.messages --mpi

The compared calls alternate; times are medians of the slowest rank.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from collalgo.bench.mpi_world import mpi_world
from collalgo.bench.records import FOUND, keep
from collalgo.bench.timing import BUDGET, ROW, medians
from rich.console import Console
from rich.table import Table

import collalgo
from collalgo.base.units import human, human_time
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import force_option, writes

#: A timed function.
Job = Callable[[], object]

#: Bytes of the messages.
SIZES = (8, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)

#: The number of messages that are in flight at a time in :func:`jobs_of`.
FLIGHT = 32

#: Bytes per second, at most, by which the repetitions of a row are limited.
SPEED = 2e9

#: Titles of the columns, by the name of the job.
COLUMNS = {
    "blocking": "send and recv",
    "exchange": "isend and irecv",
    "flight": f"{FLIGHT} in flight",
}


class Ours:
    """Messages of a communicator, with the methods that :func:`jobs_of` needs."""

    def __init__(self, comm: collalgo.Communicator):
        self.send, self.recv = comm.send, comm.recv
        self.isend, self.irecv = comm.isend, comm.irecv

    @staticmethod
    def wait(messages: list[Any]) -> None:
        for message in messages:
            message.wait()


class OfMpi:
    """Messages of mpi4py, with the same methods."""

    def __init__(self, size: int) -> None:
        from mpi4py import MPI

        comm, self.wait = mpi_world(size), MPI.Request.Waitall
        self.send, self.recv = comm.Send, comm.Recv
        self.isend, self.irecv = comm.Isend, comm.Irecv


def jobs_of(end: Any, rank: int, nbytes: int) -> dict[str, Job]:
    """A round trip, an exchange, and many messages that are exchanged at once."""
    sent, got, other = np.ones(nbytes, np.uint8), np.empty(nbytes, np.uint8), 1 - rank

    def blocking() -> None:
        if rank == 0:
            end.send(sent, other)
            end.recv(got, other)
        else:
            end.recv(got, other)
            end.send(sent, other)

    def exchange() -> None:
        end.wait([end.isend(sent, other), end.irecv(got, other)])

    def flight() -> None:
        begun = [end.irecv(got, other) for _ in range(FLIGHT)]
        end.wait([*begun, *(end.isend(sent, other) for _ in range(FLIGHT))])

    return {"blocking": blocking, "exchange": exchange, "flight": flight}


def measure(
    comm: collalgo.Communicator, ends: dict[str, Any], nbytes: int, rounds: int
) -> dict[str, Any]:
    """The seconds of a message of each library: half a round trip, an exchange."""
    row: dict[str, Any] = {"nbytes": nbytes}
    for job, share in (("blocking", 2), ("exchange", 1), ("flight", FLIGHT)):
        calls = {
            name: jobs_of(end, comm.rank, nbytes)[job] for name, end in ends.items()
        }
        in_a_row = int(np.clip(BUDGET * SPEED / rounds / share / nbytes, 1, ROW))
        taken = medians(comm, calls, rounds, in_a_row)
        row[job] = {name: seconds / share for name, seconds in taken.items()}
    return row


@click.command(context_settings=SETTINGS)
@click.option("--mpi", is_flag=True, help="Also measure the mpi4py of this job.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=41,
    help="Repetitions of each measurement.",
)
@click.option(
    "--json", "file", **writes(FOUND, by_ranks=True), help="Also write a file."
)
@force_option
def main(mpi: bool, rounds: int, file: Path | None, force: bool) -> None:
    """Measure messages between two ranks."""
    comm = collalgo.init()
    if comm.size != 2:
        raise click.UsageError(f"messages are measured on 2 ranks, not on {comm.size}")
    try:
        ends = {"collalgo": Ours(comm), **({"mpi": OfMpi(comm.size)} if mpi else {})}
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    rows = [measure(comm, ends, nbytes, rounds) for nbytes in SIZES]
    if comm.rank == 0:
        show(rows, mpi=mpi)
        if file is not None:
            keep(file, {"ranks": comm.size, "messages": rows}, force=force)


def show(rows: list[dict[str, Any]], *, mpi: bool) -> None:
    """Print the table."""
    table = Table("bytes", *COLUMNS.values())
    for row in rows:
        cells = []
        for job in COLUMNS:
            ours = row[job]["collalgo"]
            faster = f", {row[job]['mpi'] / ours:.2f}" if mpi else ""
            cells.append(human_time(ours) + faster)
        table.add_row(human(row["nbytes"]), *cells)
    console = Console()
    ratio = ", and the time of MPI over it (more is better)" if mpi else ""
    console.print(f"Messages between two ranks: time of one (less is better){ratio}")
    console.print(table)


if __name__ == "__main__":
    main()
