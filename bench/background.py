"""Benchmark overlap, buckets and persistent calls.

Run by a launcher::

    collalgo run -n 2 -m collalgo.bench.background

The compared calls alternate; times are medians of the slowest rank.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from collalgo.bench.records import FOUND, keep
from collalgo.bench.timing import medians
from rich.console import Console
from rich.table import Table

import collalgo
from collalgo.base.units import human, human_time
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import force_option, writes

#: A timed function.
Job = Callable[[], object]

#: Bytes of the reduced arrays, and the rows of the matrices multiplied meanwhile.
SIZES, ROWS = (64 << 10, 1 << 20, 16 << 20), 400

#: The number of small arrays, and the bytes of each.
COUNT, SMALL = 100, 2048


def overlap(comm: collalgo.Communicator, nbytes: int, rounds: int) -> dict[str, Any]:
    """Measure the share of an allreduce that overlaps with matrix products."""
    x = np.ones(nbytes // 4, np.float32)
    factors = np.ones((2, ROWS, ROWS), np.float32)

    def communicate() -> None:
        comm.allreduce(x, "max")

    # The number of products whose time is about that of the allreduce.
    jobs: dict[str, Job] = {"all": communicate, "one": lambda: np.matmul(*factors)}
    once = medians(comm, jobs, 5)
    products = max(1, round(once["all"] / once["one"]))

    def compute() -> None:
        for _ in range(products):
            np.matmul(*factors)

    def both() -> None:
        work = comm.allreduce_async(x, "max")
        compute()
        work.wait()

    jobs = {"communicate": communicate, "compute": compute, "both": both}
    seconds = medians(comm, jobs, rounds)
    hidden = seconds["communicate"] + seconds["compute"] - seconds["both"]
    return {"nbytes": nbytes, **seconds, "hidden": hidden / seconds["communicate"]}


def fusion(comm: collalgo.Communicator, rounds: int) -> dict[str, float]:
    """Time allreduces of many small arrays: one by one, in background, by a bucket."""
    arrays = [np.ones(SMALL // 4, np.float32) for _ in range(COUNT)]

    def one_by_one() -> None:
        for x in arrays:
            comm.allreduce(x, "max")

    def in_background() -> None:
        for work in [comm.allreduce_async(x, "max") for x in arrays]:
            work.wait()

    def by_bucket() -> None:
        with comm.bucket("max") as bucket:
            for x in arrays:
                bucket.allreduce(x)

    jobs: dict[str, Job] = {
        "one by one": one_by_one,
        "in the background": in_background,
        "by a bucket": by_bucket,
    }
    return medians(comm, jobs, rounds)


def repeated(comm: collalgo.Communicator, rounds: int) -> dict[str, float]:
    """Time an 8-byte call by its direct, persistent and background forms."""
    x, times = np.zeros(2, np.float32), 1000
    other = comm.dup()  # without calls in the background
    prepared, direct = comm.persistent_allreduce(x), other.persistent_allreduce(x)

    def many(call: Job) -> Job:
        def job() -> None:
            for _ in range(times):
                call()

        return job

    jobs = {
        "allreduce(x)": many(lambda: other.allreduce(x)),
        "persistent()": many(direct),
        "persistent.start().wait()": many(lambda: prepared.start().wait()),
        "allreduce_async(x).wait()": many(lambda: comm.allreduce_async(x).wait()),
    }
    return {name: s / times for name, s in medians(comm, jobs, rounds).items()}


@click.command(context_settings=SETTINGS)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=15,
    help="Repetitions of each measurement.",
)
@click.option(
    "--json",
    "file",
    **writes(FOUND, by_ranks=True),
    help="Also write the results to a file.",
)
@force_option
def main(rounds: int, file: Path | None, force: bool) -> None:
    """Measure overlap, fusion and persistent calls."""
    comm = collalgo.init()
    found = {
        "ranks": comm.size,
        "overlap": [overlap(comm, nbytes, rounds) for nbytes in SIZES],
        "fusion": fusion(comm, rounds),
        "repeated": repeated(comm, rounds),
    }
    if comm.rank == 0:
        show(found)
        if file is not None:
            keep(file, found, force=force)


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console()
    table = Table("allreduce", "alone", "products", "both", "hidden")
    for row in found["overlap"]:
        times = (human_time(row[key]) for key in ("communicate", "compute", "both"))
        table.add_row(human(row["nbytes"]), *times, f"{100 * row['hidden']:.0f} %")
    console.print(
        f"Overlap of an allreduce with matrix products on {found['ranks']} ranks: "
        "median time (less is better) and hidden share (more is better)"
    )
    console.print(table)
    title = f"{COUNT} allreduces of {human(SMALL)}, time of all (less is better)"
    single = "An allreduce of 8 B, time of one call (less is better)"
    for heading, key in ((title, "fusion"), (single, "repeated")):
        table = Table("form", "time")
        for name, seconds in found[key].items():
            table.add_row(name, human_time(seconds))
        console.print(heading)
        console.print(table)


if __name__ == "__main__":
    main()
