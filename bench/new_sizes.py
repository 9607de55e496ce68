"""Time calls of sizes that were never made before, as programs make them."""

from time import perf_counter

import numpy as np
from collalgo.bench.cells import Bench, Cell, dtype_of
from collalgo.bench.peers.worker import starting_barrier

from collalgo import Communicator

#: The most sizes of a cell, and of one whose arrays are longer than LONG bytes.
MOST, MOST_LONG, LONG = 60, 12, 1 << 20


def sizes_around(cell: Cell, ranks: int) -> list[Cell]:
    """The cells of different sizes around one, without it, in random order.

    They are distributed evenly in the logarithm, from its size divided by the root of
    two to its size times that.
    """
    block, count = cell.counts(ranks)
    rng = np.random.default_rng(cell.nbytes)
    most = MOST_LONG if cell.nbytes > LONG else MOST
    blocks = np.rint(block * 2 ** rng.uniform(-0.5, 0.5, most)).astype(int).tolist()
    unit = dtype_of(cell.dtype).itemsize * count // max(block, 1)
    different = dict.fromkeys(one for one in blocks if one and one != block)
    return [cell._replace(nbytes=one * unit) for one in different]


def first_calls(comm: Communicator, cell: Cell, algorithm: str | None) -> float | None:
    """The median seconds of the first calls of new sizes; None if there are none."""
    barrier = starting_barrier(comm)
    seconds = []
    for one in sizes_around(cell, comm.size):
        call = Bench(one, comm).call(algorithm)
        barrier()
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    if not seconds:
        return None
    slowest = np.array(seconds)
    comm.allreduce(slowest, "max")
    return float(np.median(slowest))
