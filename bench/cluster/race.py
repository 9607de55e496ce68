"""Compare algorithms on a cluster: measured and predicted times, and the bound.

Every rank of a cluster runs this script; rank 0 writes the results.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from collalgo.bench.cells import PLACES, REDUCING, Bench, Cell
from collalgo.bench.measuring import mpi_calls
from collalgo.bench.peers.worker import Gloo
from collalgo.bench.records import FOUND, environment, keep
from collalgo.bench.timing import race

import collalgo
from collalgo import Communicator, Selection
from collalgo.base.environment import TOPOLOGY
from collalgo.base.json_files import read_json
from collalgo.bootstrap.identity import identity
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import FiniteRange, force_option, parse_sizes, writes

COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "broadcast", "alltoall")

#: Algorithms that are always measured, for comparison.
ALWAYS = {"allreduce": ("ring", "ring_2d", "torus_2d", "hierarchical")}


@dataclass
class Entry:
    """The times of one contestant for a cell.

    Attributes
    ----------
    collective, nbytes : str, int
        The cell.
    algorithm : str
        The algorithm with its parameters, or the library of a peer.
    predicted, bound : float
        Seconds; 0 if unknown.
    seconds : list of float
        The time of each iteration.
    chosen : bool
        Whether the algorithm is the selected one.
    """

    collective: str
    nbytes: int
    algorithm: str
    predicted: float
    bound: float
    seconds: list[float] = field(default_factory=list)
    chosen: bool = False


class Contestant(NamedTuple):
    """An algorithm: its name, that by which a call runs it, and its price."""

    name: str
    call_name: str
    seconds: float


class Extent(NamedTuple):
    """Which algorithms are measured, and how many calls of each.

    Attributes
    ----------
    most : int
        The number of cheapest algorithms; with 1 it is the cheapest only.
    near : float
        The price relative to the cheapest up to which further ones are measured,
        instead of :data:`ALWAYS`.
    rounds : int
        Calls of each contestant; 0 for as many as fit into some time.
    """

    most: int
    near: float
    rounds: int

    def contestants(self, found: Selection) -> Iterator[Contestant]:
        """The cheapest algorithms, one variant of each, and those always measured."""
        plain: set[str] = set()
        for one in found.able:
            name = one.row.base_name
            near = one.seconds <= self.near * found.seconds
            if not self.near and self.most > 1:
                near = name in ALWAYS.get(found.collective, ())
            if name not in plain and (len(plain) < self.most or near):
                plain.add(name)
                yield Contestant(one.row.name, found.call_name(one), one.seconds)


def gloo_of(comm: Communicator, store: Path) -> Gloo:
    """The gloo of torch for the same ranks."""
    os.environ |= {
        "RANK": str(comm.rank),
        "WORLD_SIZE": str(comm.size),
        "STORE": str(store),
    }
    return Gloo()


def race_cell(
    comm: Communicator, cell: Cell, extent: Extent, gloo: Gloo | None
) -> list[Entry]:
    """Time the contestants of a cell, and the same call by the peers."""
    bench = Bench(cell, comm)
    chosen = comm.select(cell.collective, bench.nbytes)
    bound = chosen.bound_seconds or 0.0
    # One rank prices all candidates, which would take the cores of this machine long.
    contestants: list[Contestant] = collalgo.broadcast_object(
        [*extent.contestants(chosen)] if comm.rank == 0 else None, comm
    )
    for one in contestants:
        if bench.wrong(one.call_name):
            sys.exit(f"{cell.collective} by {one.name} is wrong")
    calls = [bench.call(one.call_name) for one in contestants]
    new_entry = partial(Entry, cell.collective, bench.nbytes, bound=bound)
    entries = [new_entry(one.name, one.seconds) for one in contestants]
    entries[0].chosen = True
    for library, call in peer_calls(bench, gloo):
        calls.append(call)
        entries.append(new_entry(library, 0.0))
    times = race(comm, calls, extent.rounds or None, warmup=1)
    for entry, seconds in zip(entries, times, strict=True):
        entry.seconds = seconds.tolist()
    return entries


def peer_calls(
    bench: Bench, gloo: Gloo | None
) -> Iterator[tuple[str, Callable[[], object]]]:
    """The same call by each peer that has it, and the name of its library."""
    for call in mpi_calls(bench):
        yield _mpi(), call
    if gloo is not None and (job := gloo.job(bench.cell.spec(bench.comm.size))):
        yield gloo.version, job.call


def _mpi() -> str:
    """The name and version of the MPI of this process."""
    from mpi4py import MPI

    name, version = MPI.get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


def _kept(output: Path) -> list[dict[str, Any]]:
    """The entries of a file, if it has any."""
    with suppress(KeyError, TypeError, ValueError):
        entries: list[dict[str, Any]] = read_json(output)["entries"]
        return entries
    return []


def _refuse_used(
    _context: object, _parameter: object, store: Path | None
) -> Path | None:
    """Refuse an existing file: the store of torch would write into it."""
    if store is not None and identity().rank == 0 and store.exists():
        raise click.BadParameter(
            f"{store} exists already; name a file that does not exist yet"
        )
    return store


@click.command(context_settings=SETTINGS)
@click.argument("output", **writes(FOUND, by_ranks=True))
@force_option
@click.option("-c", "collectives", multiple=True, default=COLLECTIVES)
@click.option(
    "-s",
    "sizes",
    default="16M",
    callback=parse_sizes,
    help="Bytes of the buffer: 64K, a list 1M,256M or a range 1K..1G.",
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=4,
    help="Number of cheapest algorithms to measure.",
)
@click.option(
    "--near",
    type=FiniteRange(0),
    default=0.0,
    help="Measure all algorithms with a price up to this times the cheapest, too; "
    "0 measures some by their names instead.",
)
@click.option(
    "--rounds",
    type=click.IntRange(0),
    default=4,
    help="Calls of each contestant; 0 for as many as fit into 0.4 s.",
)
@click.option(
    "--gloo",
    "store",
    type=click.Path(path_type=Path),
    callback=_refuse_used,
    help="Also measure the gloo of torch, with this new file as its store.",
)
def main(
    output: Path,
    force: bool,
    collectives: tuple[str, ...],
    sizes: list[int],
    most: int,
    near: float,
    rounds: int,
    store: Path | None,
) -> None:
    """Measure the cheapest algorithms and the peers, and write the times to OUTPUT.

    Entries of other collectives in OUTPUT are kept.
    """
    # First: UCX would take the connection with the launcher, which MPI needs.
    from mpi4py import MPI  # noqa: F401

    comm = collalgo.init(timeout=120)
    gloo = None if store is None else gloo_of(comm, store)
    entries: list[Entry] = []
    for collective, size in product(collectives, sizes):
        op = "sum" if collective in REDUCING else None
        place = PLACES[collective][0]
        cell = Cell(collective, size, op=op, place=place)
        entries += race_cell(comm, cell, Extent(most, near, rounds), gloo)
    if comm.rank == 0:
        kept = _kept(output)
        others = [row for row in kept if row["collective"] not in collectives]
        found = {
            "topology": Path(TOPOLOGY.given()).name,
            "environment": environment(comm.size),
            "entries": [*others, *(asdict(entry) for entry in entries)],
        }
        for entry in entries:
            _echo(entry)
        keep(output, found, force=force)


def _echo(entry: Entry) -> None:
    """Print the median time of an entry, its prediction and its bound."""
    median = float(np.median(entry.seconds))
    click.echo(
        f"{entry.collective:15} {entry.algorithm:36} {median * 1e3:9.1f} ms  "
        f"predicted {entry.predicted * 1e3:9.1f}  "
        f"bound {entry.bound * 1e3:9.1f}  {'chosen' * entry.chosen}"
    )


if __name__ == "__main__":
    main()
