"""Measure the limits of the machine, and the floor of a cell from them."""

import os
from collections.abc import Callable, Iterable, Sequence
from mmap import mmap
from time import perf_counter
from typing import NamedTuple

import numpy as np
from collalgo.bench.cells import Cell, dtype_of
from numpy.typing import NDArray

from collalgo import Communicator
from collalgo.engine.reduction import reduction
from collalgo.engine.transport.waiting import cores

Bytes = NDArray[np.uint8]


class Limit(NamedTuple):
    """The bandwidth of a kernel on ``nbytes``: bytes read and written per second."""

    kernel: str
    nbytes: int
    bandwidth: float


SIZES = (32 << 10, 512 << 10, 4 << 20, 64 << 20)
INPUTS = (2, 4, 8)

#: The sizes between which a floor is interpolated, within and beyond the caches.
STEPS = tuple(1 << exponent for exponent in range(15, 27))

#: The seconds of a kernel's measurement, and the shortest timed run in barriers.
BUDGET = 0.1
HAND_OVERS = 20


def limits(comm: Communicator) -> list[Limit]:
    """Time copies, sums and reads of other ranks' data, on all ranks concurrently."""
    barrier = hand_over(comm)
    found = []
    for nbytes in SIZES:
        found.append(_copy(comm, nbytes, barrier))
        found += [_sum(comm, nbytes, n, barrier) for n in INPUTS]
    return found + _reads(comm, SIZES, barrier)


def hand_over(comm: Communicator, calls: int = 2000) -> float:
    """The seconds of a barrier: a cache line to each other rank and back."""
    times = []
    for _ in range(5):
        comm.barrier()
        start = perf_counter()
        for _ in range(calls):
            comm.barrier()
        times.append((perf_counter() - start) / calls)
    return min(times)


class Floor:
    """The floor of a cell: the time to read and write its arrays exactly once.

    Data from other ranks is read once from where they just wrote it. That part is left
    out on several hosts, and for ranks that share cores, since their caches already
    hold some of it.

    Parameters
    ----------
    comm
        The communicator.
    cells
        The cells whose floors will be asked for, by default any.
    """

    def __init__(self, comm: Communicator, cells: Iterable[Cell] | None = None):
        self.ranks = comm.size
        self.hand_over = hand_over(comm)
        steps = STEPS if cells is None else self._steps_of(cells)
        self._copies = _Curve([_copy(comm, n, self.hand_over) for n in steps])
        apart = 1 < comm.size <= cores() and len(set(comm.hosts)) == 1
        measured = apart and steps
        self._reads = _Curve(_reads(comm, steps, self.hand_over) if measured else [])

    def _steps_of(self, cells: Iterable[Cell]) -> tuple[int, ...]:
        """The steps between which the arrays of some cells lie."""
        lengths = {length for cell in cells for length in self._lengths(cell) if length}
        if not lengths:
            return ()
        first = max((n for n in STEPS if n <= min(lengths)), default=STEPS[0])
        last = min((n for n in STEPS if n >= max(lengths)), default=STEPS[-1])
        return tuple(n for n in STEPS if first <= n <= last)

    def seconds(self, cell: Cell) -> float:
        """The time to copy the data of the cell, to read it, or of one barrier."""
        nbytes, taken = self._lengths(cell)
        moved = traffic(cell.collective, self.ranks) * nbytes
        reading = self._reads.seconds(taken, 2 * self.ranks * taken)
        return max(self.hand_over, self._copies.seconds(nbytes, moved), reading)

    def _lengths(self, cell: Cell) -> tuple[int, float]:
        """The bytes of the larger array, and those that a rank reads from others."""
        _, count = cell.counts(self.ranks)
        nbytes = count * dtype_of(cell.dtype).itemsize
        return nbytes, self._taken(cell) * nbytes

    def _taken(self, cell: Cell) -> float:
        """The largest share of the array that a rank reads from others."""
        if cell.collective == "scatter":
            return 1 / self.ranks  # the bus counts what the root sends
        return cell.busbw_factor(self.ranks)


class _Curve:
    """The bandwidth of a kernel by the size of its arrays; it may be unmeasured."""

    def __init__(self, limits: Sequence[Limit]):
        self._sizes = [np.log(limit.nbytes) for limit in limits]
        self._bandwidths = [limit.bandwidth for limit in limits]

    def seconds(self, nbytes: float, moved: float) -> float:
        """The seconds to move ``moved`` bytes with arrays of ``nbytes``."""
        if not self._sizes or not nbytes:
            return 0.0
        bandwidth = np.interp(np.log(nbytes), self._sizes, self._bandwidths)
        return moved / float(bandwidth)


def traffic(collective: str, ranks: int) -> float:
    """The memory traffic of all ranks, in units of the larger array."""
    return {
        "allgather": 1 + ranks,
        "reduce_scatter": ranks + 1,
        "broadcast": ranks,
        "reduce": ranks + 1,
        "gather": 2,
        "scatter": 2,
        "barrier": 0,
    }.get(collective, 2 * ranks)


def _copy(comm: Communicator, nbytes: int, barrier: float) -> Limit:
    source = np.ones(nbytes, np.uint8)
    target = np.ones_like(source)
    seconds = _fastest(comm, lambda _: np.copyto(target, source), barrier)
    return Limit("copy", nbytes, comm.size * 2 * nbytes / seconds)


def _sum(comm: Communicator, nbytes: int, inputs: int, barrier: float) -> Limit:
    arrays = [np.ones(nbytes // 4, np.float32) for _ in range(inputs)]
    target = np.empty_like(arrays[0])
    add = reduction(target.dtype, "sum")
    seconds = _fastest(comm, lambda _: add(target, arrays), barrier)
    return Limit(
        f"sum of {inputs}", nbytes, comm.size * (inputs + 1) * nbytes / seconds
    )


def _reads(comm: Communicator, sizes: Sequence[int], barrier: float) -> list[Limit]:
    """Copy data that the next rank just wrote; empty if the memory cannot be mapped."""
    memory = _mapped(comm, max(sizes))
    return [_read(comm, *memory, nbytes, barrier) for nbytes in sizes] if memory else []


def _read(
    comm: Communicator, mine: Bytes, theirs: Bytes, nbytes: int, barrier: float
) -> Limit:
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    pieces = len(mine) // nbytes  # another piece each turn: the last is in the cache

    def write(turn: int) -> None:
        np.copyto(mine[turn % pieces * nbytes :][:nbytes], source)

    def read(turn: int) -> None:
        np.copyto(target, theirs[turn % pieces * nbytes :][:nbytes])

    seconds = _fastest(comm, read, barrier, write)
    return Limit("read", nbytes, comm.size * 2 * nbytes / seconds)


def _mapped(comm: Communicator, nbytes: int) -> tuple[Bytes, Bytes] | None:
    """Memory of this rank, shared with the previous one, and of the next rank."""
    own = os.memfd_create("collalgo-limits")
    os.ftruncate(own, nbytes)
    places = comm.allgather(np.array([os.getpid(), own]))
    process, number = places[(comm.rank + 1) % comm.size]
    try:
        other = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR)
    except OSError:  # another namespace or user
        other = -1
    able = comm.allreduce(np.array([other]), "min")[0] >= 0
    opened = [descriptor for descriptor in (own, other) if descriptor >= 0]
    try:
        if not able:
            return None
        mine, theirs = (np.frombuffer(mmap(fd, nbytes), np.uint8) for fd in opened)
        return mine, theirs
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _fastest(
    comm: Communicator,
    work: Callable[[int], object],
    barrier: float,
    prepare: Callable[[int], object] = lambda _: None,
) -> float:
    """The least time for all ranks to run a kernel once, with a common start.

    The time ends at the last rank: ranks that share cores cannot all run at full speed.
    A barrier takes ``barrier`` seconds, so several runs are timed together; their
    untimed preparation comes first.
    """
    work(0)
    start = perf_counter()
    work(0)
    once = perf_counter() - start
    plan = np.array([once, HAND_OVERS * barrier])
    comm.allreduce(plan, "max")
    turns = int(np.ceil(plan[1] / plan[0]))
    times = np.empty(int(np.clip(BUDGET / (turns * plan[0]), 3, 1000)))
    for i in range(len(times)):
        for turn in range(turns):
            prepare(turn)
        comm.barrier()
        start = perf_counter()
        for turn in range(turns):
            work(turn)
        comm.barrier()
        times[i] = perf_counter() - start
    comm.allreduce(times, "max")
    return float(times.min()) / turns
