"""Random collectives against the oracle for as long as you like.

Run ``python -m tests.support.soak --seconds 3600``: at 2, 4 and 8 ranks in turn, with
random algorithms, sizes, dtypes, ops, roots and places, in private and in shared
memory.
"""

import gc
import os
import random
import time
from functools import partial
from pathlib import Path

import click
import numpy as np
from collalgo.bench.cells import PLACES, REDUCING, ROOTED, Bench, Cell, able
from collalgo.bench.heap import in_heap

import collalgo

DTYPES = (
    "float32",
    "float64",
    "int8",
    "int32",
    "uint16",
    "complex64",
    "float16",
    "bool",
)
OPS = ("sum", "prod", "min", "max", "avg", "band", "lor")


class Lent(Bench):
    """A cell whose arrays the other ranks may read where they are."""

    def _arrays(self):
        arrays = super()._arrays()
        return tuple(None if a is None else self._lent(a) for a in arrays)

    def _lent(self, array):
        if array.base is not None:  # a part of another, as for results in place
            return array
        return in_heap(self.comm, array)


def footprint():
    """What must not grow: descriptors, mappings and resident memory."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("\n")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), maps, pages >> 8


def random_cell(dice, size):
    """A random call, and an algorithm for it, or None."""
    collective = dice.choice(list(PLACES))
    rows = [
        row
        for row in collalgo.ALGORITHMS
        if row.collective == collective and row.obstacle(size) is None
    ]
    algorithm = dice.choice([None, dice.choice(rows).name])
    cell = Cell(
        collective,
        int(2 ** dice.uniform(0, dice.choice([8, 14, 23]))),
        dice.choice(DTYPES),
        dice.choice(OPS) if collective in REDUCING else None,
        dice.randrange(size) if collective in ROOTED else 0,
        dice.choice(PLACES[collective]),
    )
    return cell, algorithm


def soak(comm, seconds, seed):
    """How many calls were made; an error says which was wrong."""
    dice = random.Random(seed)
    end = time.monotonic() + seconds
    calls, before = 0, None
    while True:
        going = np.array([time.monotonic() < end])
        comm.broadcast(going)
        if not going[0]:
            break
        cell, algorithm = random_cell(dice, comm.size)
        kind = dice.choice([Bench, Lent])
        if able(cell):
            wrong = kind(cell, comm).wrong(algorithm)
            assert wrong == 0, f"{wrong} wrong elements: {cell} by {algorithm}"
            calls += 1
        if calls == 300:
            before = footprint()
    return calls, before, footprint()


@click.command()
@click.option("--seconds", default=60.0, help="How long for each number of ranks.")
@click.option("--ranks", multiple=True, default=(2, 4, 8), type=int)
@click.option("--seed", default=0, help="Of the dice.")
def main(seconds, ranks, seed):
    for size in ranks:
        found = collalgo.spawn(partial(soak, seconds=seconds, seed=seed), size)
        calls, before, after = found[0]
        print(f"{size} ranks: {calls} calls right; descriptors, mappings and MiB of")
        print(f"  rank 0 after 300 calls {before}, at the end {after}", flush=True)


if __name__ == "__main__":
    main()
