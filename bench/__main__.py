"""The table of allreduce: ``collalgo run -n 4 -m collalgo.bench``."""

from typing import Any

import click
import numpy as np
from collalgo.bench.timing import Times, overhead, race
from rich.console import Console
from rich.table import Table

import collalgo
from collalgo.cli import load_option


def sizes(first: int, last: int, factor: int) -> list[int]:
    """The sizes of a sweep, in bytes."""
    steps = [first]
    while steps[-1] * factor <= last:
        steps.append(steps[-1] * factor)
    return steps


def parse_size(_context: object, _parameter: object, text: str) -> int:
    """A number of bytes, as ``8``, ``4K``, ``64M`` or ``1G``."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    try:
        if text[-1:].upper() in units:
            return int(text[:-1]) * units[text[-1].upper()]
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no size; write 8, 4K or 64M") from None


def human(nbytes: int) -> str:
    """A size with the unit that fits."""
    for unit, width in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= width and nbytes % width == 0:
            return f"{nbytes // width} {unit}"
    return f"{nbytes} B"


def wrong_elements(
    comm: collalgo.Communicator, count: int, dtype: Any, algorithm: str | None
) -> int:
    """How many elements of a sum of small whole numbers are wrong, on all ranks."""
    ramp = np.arange(count) % 5
    summands = (ramp + comm.rank % 3).astype(dtype)
    found = comm.allreduce(summands, algorithm=algorithm)
    expected = ramp * comm.size + sum(rank % 3 for rank in range(comm.size))
    wrong = np.array([np.count_nonzero(found != expected.astype(dtype))])
    return int(comm.allreduce(wrong)[0])


class Row:
    """One size: what was chosen and why, and how long it took."""

    def __init__(
        self,
        comm: collalgo.Communicator,
        nbytes: int,
        dtype: Any,
        algorithm: str | None,
        mpi: Any,
    ) -> None:
        count = max(1, nbytes // np.dtype(dtype).itemsize)
        source, target = np.ones(count, dtype), np.empty(count, dtype)
        contestants = [lambda: comm.allreduce(source, out=target, algorithm=algorithm)]
        if mpi is not None:
            theirs = np.empty(count, dtype)
            contestants.append(lambda: mpi.Allreduce(source, theirs))
        self.nbytes = source.nbytes
        chosen = comm.select("allreduce", self.nbytes)
        self.algorithm = algorithm or chosen.algorithm
        self.reason = "as asked" if algorithm else chosen.reason
        self.times: list[Times] = race(comm, contestants)
        self.wrong = wrong_elements(comm, count, dtype, algorithm)
        self.factor = 2 * (comm.size - 1) / comm.size

    def cells(self) -> list[str]:
        ours, *theirs = self.times
        bandwidth = self.factor * self.nbytes / ours.median / 1e9
        cells = [
            human(self.nbytes),
            self.algorithm,
            self.reason,
            f"{ours.median * 1e6:.1f}",
            f"{ours.minimum * 1e6:.1f}",
            f"{bandwidth:.2f}",
            "[green]yes" if self.wrong == 0 else f"[red]{self.wrong} wrong",
        ]
        if theirs:
            del cells[4]  # the fastest of all is of less interest than the other
        for other in theirs:
            cells.append(f"{other.median * 1e6:.1f}")
            cells.append(f"{other.median / ours.median:.2f}")
        return cells


def table(rows: list[Row], size: int, dtype: str, against: str | None) -> Table:
    """The table as it is printed."""
    result = Table(title=f"allreduce, {dtype} sum, {size} ranks, out of place")
    for name, justify in (
        ("size", "right"),
        ("algorithm", "left"),
        ("why", "left"),
        ("time us", "right"),
        *([] if against else [("best us", "right")]),
        ("busbw GB/s", "right"),
        ("correct", "left"),
    ):
        result.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    if against:
        result.add_column(f"{against} us", justify="right", no_wrap=True)
        result.add_column("ratio", justify="right", no_wrap=True)
    for row in rows:
        result.add_row(*row.cells())
    return result


@click.command()
@click.option("-b", "first", default="8", callback=parse_size, help="Smallest size.")
@click.option("-e", "last", default="16M", callback=parse_size, help="Largest size.")
@click.option("-f", "factor", default=8, type=click.IntRange(2), help="Size step.")
@click.option("-d", "dtype", default="float32", help="dtype of NumPy.")
@click.option("-a", "algorithm", help="A name of the table; by default the cheapest.")
@load_option
@click.option("--against", type=click.Choice(["mpi"]), help="Race mpi4py as well.")
def main(
    first: int,
    last: int,
    factor: int,
    dtype: str,
    algorithm: str | None,
    against: str | None,
) -> None:
    """Measure allreduce from the smallest size to the largest, on all ranks.

    With --against, run it under mpiexec; both are timed in turn in the same processes.
    """
    comm = collalgo.init()
    mpi, name = None, None
    if against:
        from mpi4py import MPI

        mpi = MPI.COMM_WORLD.Dup()
        name = MPI.get_vendor()[0]
    rows = [
        Row(comm, nbytes, dtype, algorithm, mpi)
        for nbytes in sizes(first, last, factor)
    ]
    if comm.rank == 0:
        with comm.group([0]) as alone:
            call = overhead(alone)
        console = Console(width=None if Console().is_terminal else 120)
        console.print(table(rows, comm.size, dtype, name))
        console.print(f"an 8-byte call on one rank takes {call * 1e6:.2f} us")
    if mpi is not None:
        mpi.Free()


if __name__ == "__main__":
    main()
