"""What the machine can do at best: the floor beside which results stand."""

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from collalgo.bench.cells import Cell, dtype_of

from collalgo import Communicator
from collalgo.reduction import reduction


class Limit(NamedTuple):
    """A kernel on so many bytes: bytes read and written per second, on all ranks."""

    kernel: str
    nbytes: int
    bandwidth: float


SIZES = (32 << 10, 512 << 10, 4 << 20, 64 << 20)
INPUTS = (2, 4, 8)

#: The sizes between which a floor is interpolated: the caches end somewhere in between.
STEPS = tuple(1 << exponent for exponent in range(15, 27))

#: How long a kernel is measured, in seconds, and at once at least as long as so many
#: barriers take.
BUDGET = 0.1
HAND_OVERS = 20


def limits(comm: Communicator) -> list[Limit]:
    """Copy, and add two and more inputs, on all ranks at once."""
    meeting = hand_over(comm)
    found = []
    for nbytes in SIZES:
        found.append(_copy(comm, nbytes, meeting))
        found += [_sum(comm, nbytes, n, meeting) for n in INPUTS]
    return found


def hand_over(comm: Communicator, calls: int = 2000) -> float:
    """Seconds of a barrier: through a cache line to each other rank and back."""
    times = []
    for _ in range(5):
        comm.barrier()
        start = perf_counter()
        for _ in range(calls):
            comm.barrier()
        times.append((perf_counter() - start) / calls)
    return min(times)


class Floor:
    """The least time of a cell: its arrays are read and written once, and no more.

    Parameters
    ----------
    comm
        The ranks.
    """

    def __init__(self, comm: Communicator):
        self.ranks = comm.size
        self.hand_over = hand_over(comm)
        found = [_copy(comm, nbytes, self.hand_over) for nbytes in STEPS]
        self._sizes = [np.log(limit.nbytes) for limit in found]
        self._bandwidths = [limit.bandwidth for limit in found]

    def seconds(self, cell: Cell) -> float:
        """As long as it takes to copy what the cell moves, or to meet once."""
        _, count = cell.counts(self.ranks)
        nbytes = count * dtype_of(cell.dtype).itemsize
        if not nbytes:
            return self.hand_over
        bandwidth = np.interp(np.log(nbytes), self._sizes, self._bandwidths)
        moved = traffic(cell.collective, self.ranks) * nbytes
        return max(self.hand_over, moved / float(bandwidth))


def traffic(collective: str, ranks: int) -> float:
    """What all ranks together must read and write, in units of the larger array."""
    return {
        "allgather": 1 + ranks,
        "reduce_scatter": ranks + 1,
        "broadcast": ranks,
        "reduce": ranks + 1,
        "gather": 2,
        "scatter": 2,
        "barrier": 0,
    }.get(collective, 2 * ranks)


def _copy(comm: Communicator, nbytes: int, meeting: float) -> Limit:
    source = np.ones(nbytes, np.uint8)
    target = np.ones_like(source)
    seconds = _fastest(comm, lambda: np.copyto(target, source), meeting)
    return Limit("copy", nbytes, comm.size * 2 * nbytes / seconds)


def _sum(comm: Communicator, nbytes: int, inputs: int, meeting: float) -> Limit:
    arrays = [np.ones(nbytes // 4, np.float32) for _ in range(inputs)]
    target = np.empty_like(arrays[0])
    add = reduction(target.dtype, "sum")
    seconds = _fastest(comm, lambda: add(target, arrays), meeting)
    return Limit(
        f"sum of {inputs}", nbytes, comm.size * (inputs + 1) * nbytes / seconds
    )


def _fastest(comm: Communicator, work: Callable[[], object], meeting: float) -> float:
    """The least time in which all ranks have worked once, if they begin together.

    It ends with the last of them: where ranks share cores each may be as fast as if it
    were alone, but not all of them at once. A barrier takes as long as ``meeting``.
    """
    work()
    start = perf_counter()
    work()
    once = perf_counter() - start
    plan = np.array([once, HAND_OVERS * meeting])
    comm.allreduce(plan, "max")
    turns = int(np.ceil(plan[1] / plan[0]))
    times = np.empty(int(np.clip(BUDGET / (turns * plan[0]), 3, 1000)))
    for i in range(len(times)):
        comm.barrier()
        start = perf_counter()
        for _ in range(turns):
            work()
        comm.barrier()
        times[i] = perf_counter() - start
    comm.allreduce(times, "max")
    return float(times.min()) / turns
