"""What arrays of ``comm.empty`` gain: those that all ranks have mapped.

Run by a launcher::

    collalgo run -n 2 -m collalgo.bench.heap

The same calls are made in turns on such arrays and on others, as programs make them:
before each the ranks write what they send, and after it they read what they have got.
Timed is the call alone, and all of it, for memory that two share may be read and
written more slowly afterwards. Times are medians of the slowest rank.
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
from collalgo.cli.options import force_option, writes

#: What is measured: collectives, and where their results go.
CALLS = (
    ("allreduce", "in"),
    ("allreduce", "out"),
    ("reduce_scatter", "out"),
    ("allgather", "out"),
    ("alltoall", "out"),
    ("broadcast", "in"),
)

SIZES = tuple(1 << n for n in range(14, 27, 2))

#: Columns of the table where no terminal says how many there are.
WIDTH = 132

#: So many bytes go through the calls of a turn, of which there are at most so many.
TURN_BYTES, FEWEST, MOST = 400 << 20, 24, 300

#: So much of a turn does not count: the caches are still full of the other's arrays.
WARM_UP = 4

OTHER, HEAP = "others", "comm.empty"

#: The call alone, and all of it.
CALL, WHOLE = "call", "whole"


class Use(NamedTuple):
    """How a program uses a call on its arrays."""

    write: Call
    call: Call
    read: Call

    def between(self) -> None:
        """Do what is done between two calls."""
        self.read()
        self.write()

    def whole(self) -> None:
        """Do all."""
        self.write()
        self.call()
        self.read()


def uses(cell: Cell, comm: collalgo.Communicator) -> dict[str, Use]:
    """What each rank does, on either kind of arrays."""
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
    """What a rank does after each call: read its result, to copy it elsewhere."""
    elsewhere = np.zeros_like(result)
    return lambda: np.copyto(elsewhere, result)


def in_heap(comm: collalgo.Communicator, array: np.ndarray) -> np.ndarray:
    """A copy of an array that all ranks have mapped."""
    copy = comm.empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def compare(cell: Cell, comm: collalgo.Communicator, turns: int) -> dict[str, Any]:
    """The seconds of a cell on either kind of arrays, of the call and of all."""
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
    """How many times as fast such arrays were, turn by turn."""
    return np.divide(seconds[OTHER], seconds[HEAP])


def cells(sizes: tuple[int, ...]) -> Iterator[Cell]:
    """All that is measured."""
    for collective, place in CALLS:
        op = "sum" if "reduce" in collective else None
        for nbytes in sizes:
            yield Cell(collective, nbytes, op=op, place=place)


@click.command()
@click.option("--turns", default=7, help="Of each cell, on either kind of arrays.")
@click.option("--json", "file", **writes(FOUND, by_ranks=True), help="Write it too.")
@force_option
def main(turns: int, file: Path | None, force: bool) -> None:
    """Compare calls on arrays of comm.empty with calls on others."""
    comm = collalgo.init()
    rows = [compare(cell, comm, turns) for cell in cells(SIZES)]
    if comm.rank == 0:
        show(rows)
        if file is not None:
            keep(file, rows, force=force)


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    columns = (OTHER, HEAP, "times as fast", "in one turn")
    whole = ("all, " + OTHER, *columns[1:])
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
    console = wide_console(WIDTH)
    console.print(f"{rows[0]['ranks']} ranks:", table)


if __name__ == "__main__":
    main()
