"""Time calls on all ranks at once, several contestants side by side in one run."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from collalgo import Communicator

Call = Callable[[], object]

#: How long the measurement of one contestant may take, in seconds, and how often it
#: is repeated at least and at most.
BUDGET = 0.4
FEWEST, MOST = 5, 2000


class Times(NamedTuple):
    """Seconds of one contestant over the iterations, the slowest rank in each."""

    median: float
    minimum: float


def race(
    comm: Communicator, contestants: Sequence[Call], iterations: int | None = None
) -> list[Times]:
    """Time calls in turn, so that what disturbs one disturbs the others too.

    Each call begins at a barrier; its time is that of the slowest rank.

    Parameters
    ----------
    comm
        The ranks that call.
    contestants
        Functions to call on every rank.
    iterations
        How often; by default as often as fits into :data:`BUDGET`.
    """
    for call in contestants:  # plans, pages and caches
        call()
        call()
    if iterations is None:
        iterations = _affordable(comm, contestants)
    seconds = np.empty((iterations, len(contestants)))
    for iteration in range(iterations):
        for number, call in enumerate(contestants):
            comm.barrier()
            start = perf_counter()
            call()
            seconds[iteration, number] = perf_counter() - start
    comm.allreduce(seconds, "max")
    return [Times(float(np.median(t)), float(t.min())) for t in seconds.T]


def _affordable(comm: Communicator, contestants: Sequence[Call]) -> int:
    comm.barrier()
    start = perf_counter()
    for call in contestants:
        call()
    longest = np.array([perf_counter() - start])
    comm.allreduce(longest, "max")
    return int(np.clip(BUDGET * len(contestants) / longest[0], FEWEST, MOST))


def overhead(comm: Communicator, calls: int = 100_000) -> float:
    """Seconds of an 8-byte allreduce on a world of one rank: nothing but the call."""
    x = np.ones(1)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        for _ in range(calls // 5):
            comm.allreduce(x)
        best = min(best, (perf_counter() - start) / (calls // 5))
    return best
