"""Benchmark arrays of ``comm.empty``, which all ranks map, against private arrays.

Run by a launcher::

    collalgo run -n 2 -m collalgo.bench.heap

The same calls alternate between the two kinds of arrays. As in a program, the ranks
write the input before each call and read the result after it. Both the call alone and
the whole are timed, since shared memory may be slower to read and write afterwards.
Times are medians of the slowest rank.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from collalgo.bench.cells import Bench, Cell
from collalgo.bench.peers.worker import writer
from collalgo.bench.records import FOUND, keep
from collalgo.bench.timing import Call, race
from rich.table import Table

import collalgo
from collalgo.base.console import wide_console
from collalgo.base.units import human, human_time
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import force_option, writes

#: The measured collectives, in place or out of place.
CALLS = (
    ("allreduce", "in"),
    ("allreduce", "out"),
    ("reduce_scatter", "out"),
    ("allgather", "out"),
    ("alltoall", "out"),
    ("broadcast", "in"),
)

SIZES = tuple(1 << n for n in range(14, 27, 2))

#: The bytes of all calls of a turn, and the fewest and most calls.
TURN_BYTES, FEWEST, MOST = 400 << 20, 24, 300

#: The first 1/WARM_UP of a turn is discarded: the caches hold the other arrays.
WARM_UP = 4

OTHER, HEAP = "others", "comm.empty"

#: The call alone, and the call with the write and read around it.
CALL, WHOLE = "call", "whole"


class Use(NamedTuple):
    """A call with the write before it and the read after it."""

    write: Call
    call: Call
    read: Call

    def between(self) -> None:
        """Read the last result and write the next input."""
        self.read()
        self.write()

    def whole(self) -> None:
        """Write, call and read."""
        self.write()
        self.call()
        self.read()


def uses(cell: Cell, comm: collalgo.Communicator) -> dict[str, Use]:
    """The use of a cell on each kind of arrays."""
    found = {}
    spec = {**cell._asdict(), "fresh": True}
    for name in (OTHER, HEAP):
        bench = Bench(cell, comm)
        if name == HEAP:
            bench.source = in_heap(comm, bench.source)
            bench.out = None if bench.out is None else in_heap(comm, bench.out)
        write = writer(spec, comm.rank, bench.source)
        result = bench.source if bench.out is None else bench.out
        found[name] = Use(write, bench.call(), reader(result))
    return found


def reader(result: np.ndarray) -> Call:
    """The read after each call: copy the result to another array."""
    elsewhere = np.zeros_like(result)
    return lambda: np.copyto(elsewhere, result)


def in_heap(comm: collalgo.Communicator, array: np.ndarray) -> np.ndarray:
    """A copy of an array in memory that all ranks map."""
    copy = comm.empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def compare(cell: Cell, comm: collalgo.Communicator, turns: int) -> dict[str, Any]:
    """The seconds of a cell on each kind of arrays, of the call and of the whole."""
    calls = int(np.clip(TURN_BYTES // cell.nbytes, FEWEST, MOST))
    seconds: dict[str, dict[str, list[float]]] = {
        part: {OTHER: [], HEAP: []} for part in (CALL, WHOLE)
    }
    both = uses(cell, comm)
    for _ in range(turns):
        for name, use in both.items():
            alone = race(comm, [use.call], calls, before=use.between)[0]
            whole = race(comm, [use.whole], calls)[0]
            for part, times in ((CALL, alone), (WHOLE, whole)):
                median = float(np.median(times[calls // WARM_UP :]))
                seconds[part][name].append(median)
    return {
        "collective": cell.collective,
        "place": cell.place,
        "size": cell.nbytes,
        "ranks": comm.size,
        **seconds,
    }


def gains(seconds: dict[str, list[float]]) -> Any:
    """The speedup by arrays of ``comm.empty``, turn by turn."""
    return np.divide(seconds[OTHER], seconds[HEAP])


def cells(sizes: tuple[int, ...]) -> Iterator[Cell]:
    """All measured cells."""
    for collective, place in CALLS:
        op = "sum" if "reduce" in collective else None
        for nbytes in sizes:
            yield Cell(collective, nbytes, op=op, place=place)


@click.command(context_settings=SETTINGS)
@click.option(
    "--turns",
    type=click.IntRange(1),
    default=7,
    help="Turns of each cell on each kind of arrays.",
)
@click.option(
    "--json",
    "file",
    **writes(FOUND, by_ranks=True),
    help="Also write the results to a file.",
)
@force_option
def main(turns: int, file: Path | None, force: bool) -> None:
    """Compare calls on arrays of comm.empty with calls on private arrays."""
    comm = collalgo.init()
    rows = [compare(cell, comm, turns) for cell in cells(SIZES)]
    if comm.rank == 0:
        show(rows)
        if file is not None:
            keep(file, rows, force=force)


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    columns = ("private", HEAP, "speedup", "range of turns")
    whole = ("whole, private", *columns[1:])
    table = Table("call", "size", *columns, *whole)
    for row in rows:
        cells = []
        for part in (CALL, WHOLE):
            ratios = gains(row[part])
            cells += [
                *(human_time(float(np.median(row[part][n]))) for n in (OTHER, HEAP)),
                f"{np.median(ratios):.2f}",
                f"{ratios.min():.2f} to {ratios.max():.2f}",
            ]
        table.add_row(f"{row['collective']} {row['place']}", human(row["size"]), *cells)
    console = wide_console()
    console.print(
        f"Calls on private arrays and on arrays of comm.empty, {rows[0]['ranks']} "
        "ranks: median time of the slowest rank (less is better), the call alone and "
        "with the write before and the read after it:"
    )
    console.print(table)


if __name__ == "__main__":
    main()
