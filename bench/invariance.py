"""Compare a plain allreduce with sums in rank order and exact sums."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import numpy as np
from collalgo.bench.cells import dtype_of
from collalgo.bench.job_commands import on_ranks, spawned_ranks_option
from collalgo.bench.options import parse_names
from collalgo.bench.records import FOUND, environment, keep
from collalgo.bench.report import micro
from collalgo.bench.timing import race
from rich.table import Table

from collalgo import Communicator
from collalgo.base.console import wide_console
from collalgo.base.units import counted, human
from collalgo.cli.options import FiniteRange, force_option, parse_sizes, writes
from collalgo.engine.call import Reproducible
from collalgo.engine.reduction import EXACT_DTYPES

#: The values of ``reproducible``, by the heads of their columns.
MODES: dict[str, Reproducible] = {
    "plain": False,
    "in rank order": True,
    "invariant": "invariant",
}

#: The sizes in bytes by default, and the calls of a mode in a row.
SIZES, ROW = "8,512,4K,16K,64K,256K,1M,4M,16M", 10


class Row(NamedTuple):
    """The median seconds of an allreduce of the slowest rank, of each of ``MODES``."""

    dtype: str
    nbytes: int
    seconds: list[float]

    @property
    def ratios(self) -> list[float]:
        """The times relative to that of the plain call."""
        return [one / self.seconds[0] for one in self.seconds]


def invariance(
    comm: Communicator, dtypes: Sequence[str], sizes: Sequence[int], powers: float
) -> list[Row]:
    """Race the modes; the numbers of two contributions differ by powers of two.

    Each mode has a communicator of its own: the next call finds the last one again.
    """
    comms = [comm.dup() for _ in MODES]
    found = [
        Row(dtype, nbytes, _row(comms, comm, dtype, nbytes, powers))
        for dtype in dtypes
        for nbytes in sizes
    ]
    for each in comms:
        each.close()
    return found


def _row(
    comms: Sequence[Communicator],
    comm: Communicator,
    dtype: str,
    nbytes: int,
    powers: float,
) -> list[float]:
    """The median seconds of each mode."""
    rng = np.random.default_rng(comm.rank)
    kind = dtype_of(dtype)
    count = max(nbytes // kind.itemsize, 1)
    numbers = rng.standard_normal(count) * 2.0 ** (powers * (rng.random(count) - 0.5))
    source = numbers.astype(kind)
    out = np.empty_like(source)
    calls = [
        partial(each.allreduce, source, out=out, reproducible=mode)
        for each, mode in zip(comms, MODES.values(), strict=True)
    ]
    fresh = partial(np.negative, source, out=source)
    times = race(comm, calls, before=fresh, in_a_row=ROW)
    return [median(each) for each in times.tolist()]


def table(rows: Sequence[Row], ranks: int) -> Table:
    """The table of all sizes."""
    found = Table(
        title=f"allreduce of {counted(ranks, 'rank')}, time / that of the plain call "
        "(less is better)",
        box=None,
    )
    for name in ("dtype", "size", "plain us", *list(MODES)[1:]):
        found.add_column(name, justify="left" if name == "dtype" else "right")
    for row in rows:
        ratios = (f"{one:.2f}" for one in row.ratios[1:])
        found.add_row(row.dtype, human(row.nbytes), micro(row.seconds[0]), *ratios)
    return found


@click.command("invariance")
@spawned_ranks_option
@click.option(
    "-d", "--dtypes", default="float32", callback=parse_names,
    help="dtypes of floats, separated by commas.",
)  # fmt: skip
@click.option(
    "-s", "--size", "sizes", default=SIZES, callback=parse_sizes,
    help="Sizes in bytes: a list 1M,256M or ranges 1K..1G.",
)  # fmt: skip
@click.option(
    "--powers", type=FiniteRange(0), default=0.0,
    help="Powers of two that the numbers differ by, besides a normal distribution.",
)  # fmt: skip
@click.option(
    "--json", "file", **writes(FOUND, by_ranks=True), help="Write the times to a file."
)
@force_option
def command(
    ranks: int,
    dtypes: Sequence[str],
    sizes: Sequence[int],
    powers: float,
    file: Path | None,
    force: bool,
) -> None:
    """Compare allreduce with its forms reproducible=True and "invariant".

    Runs on the ranks of collalgo run or mpiexec; without a launcher, on --ranks
    processes of this host.
    """
    if others := [name for name in dtypes if name not in EXACT_DTYPES]:
        raise click.ClickException(
            f"{others[0]} has no invariant sums; choose of {', '.join(EXACT_DTYPES)}"
        )
    work = partial(invariance, dtypes=dtypes, sizes=sizes, powers=powers)
    done = on_ranks(work, ranks)
    if done is None:
        return
    found, ranks = done
    wide_console().print(table(found, ranks))
    if file is not None:
        conditions = environment(ranks, modes=list(MODES), powers=powers)
        rows = [row._asdict() for row in found]
        keep(file, {**conditions, "rows": rows}, force=force)
