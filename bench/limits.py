"""What the machine can do at best: the floor beside which results stand."""

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from collalgo import Communicator
from collalgo.reduction import reduction


class Limit(NamedTuple):
    """A kernel on so many bytes: bytes read and written per second, on all ranks."""

    kernel: str
    nbytes: int
    bandwidth: float


SIZES = (32 << 10, 512 << 10, 4 << 20, 64 << 20)
INPUTS = (2, 4, 8)

#: How long a kernel is measured, in seconds.
BUDGET = 0.1


def limits(comm: Communicator) -> list[Limit]:
    """Copy, and add two and more inputs, on all ranks at once."""
    found = []
    for nbytes in SIZES:
        found.append(_copy(comm, nbytes))
        found += [_sum(comm, nbytes, n) for n in INPUTS]
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


def _copy(comm: Communicator, nbytes: int) -> Limit:
    source = np.ones(nbytes, np.uint8)
    target = np.ones_like(source)
    seconds = _fastest(comm, lambda: np.copyto(target, source))
    return Limit("copy", nbytes, comm.size * 2 * nbytes / seconds)


def _sum(comm: Communicator, nbytes: int, inputs: int) -> Limit:
    arrays = [np.ones(nbytes // 4, np.float32) for _ in range(inputs)]
    target = np.empty_like(arrays[0])
    add = reduction(target.dtype, "sum")
    seconds = _fastest(comm, lambda: add(target, arrays))
    return Limit(
        f"sum of {inputs}", nbytes, comm.size * (inputs + 1) * nbytes / seconds
    )


def _fastest(comm: Communicator, work: Callable[[], object]) -> float:
    """The least time that the slowest rank takes while all are at work."""
    work()
    start = perf_counter()
    work()
    once = np.array([perf_counter() - start])
    comm.allreduce(once, "max")
    times = np.empty(int(np.clip(BUDGET / once[0], 3, 1000)))
    for i in range(len(times)):
        comm.barrier()
        start = perf_counter()
        work()
        times[i] = perf_counter() - start
    comm.allreduce(times, "max")
    return float(times.min())
