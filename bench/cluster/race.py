"""Race algorithms on a cluster: measured, predicted, and beside the bound.

A script that every rank of a cluster runs; rank 0 writes what was found.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from collalgo.bench.cells import PLACES, REDUCING, Bench, Cell
from collalgo.bench.measuring import mpi_calls
from collalgo.bench.peers.worker import Gloo
from collalgo.bench.records import FOUND, environment, keep
from collalgo.bench.timing import race

import collalgo
from collalgo import Communicator
from collalgo.base.units import parse_size
from collalgo.bootstrap.identity import identity
from collalgo.cli.options import force_option, writes
from collalgo.selection.selection import Candidate

COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "broadcast", "alltoall")

#: Algorithms that are always there, so that readers find them side by side.
ALWAYS = {"allreduce": ("ring", "ring_2d", "torus_2d", "hierarchical")}


@dataclass
class Entry:
    """What one contestant has taken for a cell.

    Attributes
    ----------
    collective, nbytes : str, int
        The cell.
    algorithm : str
        With its parameters; the name of the library, of a peer.
    predicted, bound : float
        Seconds; 0 if not known.
    seconds : list of float
        What each iteration took.
    chosen : bool
        Whether this is what the price chooses.
    """

    collective: str
    nbytes: int
    algorithm: str
    predicted: float
    bound: float
    seconds: list[float] = field(default_factory=list)
    chosen: bool = False


def contestants(
    comm: Communicator, collective: str, nbytes: int, most: int
) -> Iterator[Candidate]:
    """The cheapest algorithms by price, one variant of each, and those always there."""
    found = comm.select(collective, nbytes).candidates
    plain: set[str] = set()
    for candidate in found:
        name = candidate.row.base_name
        if candidate.obstacle is not None or name in plain:
            continue
        if len(plain) < most or name in ALWAYS.get(collective, ()):
            plain.add(name)
            yield candidate


def gloo_of(comm: Communicator, meeting: Path) -> Gloo:
    """The gloo of torch among the same ranks, on the NIC that UCX would take."""
    os.environ |= {
        "RANK": str(comm.rank),
        "WORLD_SIZE": str(comm.size),
        "STORE": str(meeting),
        "GLOO_SOCKET_IFNAME": os.environ.get("UCX_NET_DEVICES", ""),
    }
    return Gloo()


def race_cell(
    comm: Communicator, cell: Cell, most: int, rounds: int, gloo: Gloo | None
) -> list[Entry]:
    """Race the contestants of a cell, and the same call of the peers beside them."""
    bench = Bench(cell, comm)
    chosen = comm.select(cell.collective, bench.nbytes)
    bound = chosen.bound_seconds or 0.0
    candidates = list(contestants(comm, cell.collective, bench.nbytes, most))
    names = [candidate.row.name for candidate in candidates]
    names[0] = chosen.decision.name  # with the order of ranks that was decided on
    for name in names:
        if bench.wrong(name):
            sys.exit(f"{cell.collective} by {name} is wrong")
    calls = [bench.call(name) for name in names]
    entries = [
        Entry(
            cell.collective,
            bench.nbytes,
            candidate.row.name,
            candidate.seconds,
            bound,
            chosen=number == 0,
        )
        for number, candidate in enumerate(candidates)
    ]
    for call in mpi_calls(bench):
        calls.append(call)
        entries.append(Entry(cell.collective, bench.nbytes, _mpi(), 0.0, bound))
    if gloo is not None and (job := gloo.job(cell.spec(comm.size))):
        calls.append(job.call)
        entries.append(Entry(cell.collective, bench.nbytes, gloo.version, 0.0, bound))
    times = race(comm, calls, rounds, warmup=1)
    for entry, seconds in zip(entries, times, strict=True):
        entry.seconds = seconds.tolist()
    return entries


def _mpi() -> str:
    """The MPI of this process and its version, in short."""
    from mpi4py import MPI

    name, version = MPI.get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


def _kept(output: Path) -> list[dict[str, Any]]:
    """The entries of a file, if it has some."""
    with suppress(KeyError, OSError, TypeError, ValueError):
        entries: list[dict[str, Any]] = json.loads(output.read_text())["entries"]
        return entries
    return []


def _refuse_used(
    _context: object, _parameter: object, meeting: Path | None
) -> Path | None:
    """Refuse a file with something in it: the store of torch would write into it."""
    if meeting is not None and identity().rank == 0 and meeting.exists():
        raise click.BadParameter(
            f"{meeting} is there already; name a file that does not exist yet"
        )
    return meeting


@click.command()
@click.argument("output", **writes(FOUND, by_ranks=True))
@force_option
@click.option("-c", "collectives", multiple=True, default=COLLECTIVES)
@click.option(
    "-s", "size", default="16M", callback=parse_size, help="Bytes of the buffer."
)
@click.option("--most", default=4, help="How many of the cheapest algorithms.")
@click.option("--rounds", default=4, help="How often each is called.")
@click.option(
    "--gloo",
    "meeting",
    type=click.Path(path_type=Path),
    callback=_refuse_used,
    help="Race the gloo of torch too, whose ranks meet in this file.",
)
def main(
    output: Path,
    force: bool,
    collectives: tuple[str, ...],
    size: int,
    most: int,
    rounds: int,
    meeting: Path | None,
) -> None:
    """Race the cheapest algorithms and the peers, and write what they took to OUTPUT.

    What OUTPUT has of other collectives stays there.
    """
    comm = collalgo.init(timeout=120)
    gloo = None if meeting is None else gloo_of(comm, meeting)
    entries = []
    for collective in collectives:
        op = "sum" if collective in REDUCING else None
        place = PLACES[collective][0]
        cell = Cell(collective, size, op=op, place=place)
        entries += race_cell(comm, cell, most, rounds, gloo)
    if comm.rank == 0:
        kept = _kept(output)
        others = [row for row in kept if row["collective"] not in collectives]
        found = {
            "topology": Path(os.environ.get("COLLALGO_TOPOLOGY", "")).name,
            "environment": environment(comm.size),
            "entries": [*others, *(asdict(entry) for entry in entries)],
        }
        for entry in entries:
            median = float(np.median(entry.seconds))
            click.echo(
                f"{entry.collective:15} {entry.algorithm:36} {median * 1e3:9.1f} ms  "
                f"predicted {entry.predicted * 1e3:9.1f}  "
                f"bound {entry.bound * 1e3:9.1f}  {'chosen' * entry.chosen}"
            )
        keep(output, found, force=force)


if __name__ == "__main__":
    main()
