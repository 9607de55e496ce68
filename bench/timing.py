"""Time calls on all ranks, alternating between contestants in one run."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np
from collalgo.bench.peers.worker import as_one
from collalgo.bench.starting import starting_barrier
from numpy.typing import NDArray

from collalgo import Communicator

Call = Callable[[], object]

#: The seconds to measure one contestant, and the fewest and most repetitions.
BUDGET = 0.4
FEWEST, MOST = 5, 2000

#: The time relative to the fastest up to which a contestant is promising.
PROMISING = 1.5

#: The least seconds of calls in a row, and the most calls.
LONG, ROW = 1e-4, 64


def race(
    comm: Communicator,
    contestants: Sequence[Call],
    iterations: int | None = None,
    warmup: int = 2,
    before: Call = lambda: None,
    in_a_row: int = 1,
) -> NDArray[np.float64]:
    """Time contestants alternately, so that a disturbance affects all of them.

    Each call starts at a barrier; its time is that of the slowest rank. Each iteration
    has a new random order, the same on all ranks, so that none always follows another.
    Of several calls in a row only the first starts at a barrier.

    Parameters
    ----------
    comm
        The communicator.
    contestants
        Functions to call on every rank.
    iterations
        Timed repetitions; by default as many as fit into :data:`BUDGET`.
    warmup
        Untimed calls of each contestant first, to fill plans, pages and caches.
    before
        A function to call before each barrier.
    in_a_row
        Calls of a contestant that are timed together; see :func:`row_of`.

    Returns
    -------
    ndarray
        Seconds, a row for each contestant and a column for each iteration.
    """
    for call in contestants:
        for _ in range(warmup):
            call()
    rows = [as_one(call, in_a_row) for call in contestants]
    if iterations is None:
        iterations = _affordable(comm, rows)
    barrier = starting_barrier(comm)
    seconds = np.empty((iterations, len(rows)))
    order = np.random.default_rng(len(contestants))
    for iteration in range(iterations):
        for number in order.permutation(len(rows)).tolist():
            row = rows[number]
            before()
            barrier()
            start = perf_counter()
            row()
            seconds[iteration, number] = perf_counter() - start
    comm.allreduce(seconds, "max")
    each: NDArray[np.float64] = seconds.T / in_a_row
    return each


def promising(tried: NDArray[np.float64], selected: Sequence[bool]) -> list[int]:
    """The numbers of the contestants to time further, of rows of a first race."""
    seconds = np.median(tried, axis=1)
    near = seconds <= PROMISING * seconds.min()
    found: list[int] = np.flatnonzero(near | np.array(selected)).tolist()
    return found


def row_of(
    comm: Communicator, contestants: Sequence[Call], seconds: float = LONG
) -> int:
    """The number of calls of the fastest contestant that take ``seconds``.

    The ranks leave a barrier one after the other. If they share cores, a single short
    call lasts until every rank has been scheduled, which depends on the state of the
    ranks at the barrier more than on the algorithm.
    """
    best = np.full(1, np.inf)
    for call in contestants:
        for _ in range(FEWEST):
            comm.barrier()
            start = perf_counter()
            for _ in range(FEWEST):
                call()
            best[0] = min(best[0], (perf_counter() - start) / FEWEST)
    comm.allreduce(best, "max")
    return int(np.clip(np.ceil(seconds / best[0]), 1, ROW))


def medians(
    comm: Communicator,
    contestants: Mapping[str, Call],
    iterations: int,
    in_a_row: int = 1,
) -> dict[str, float]:
    """The median seconds of each contestant; see :func:`race`."""
    calls = list(contestants.values())
    taken = np.median(race(comm, calls, iterations, in_a_row=in_a_row), axis=1)
    return dict(zip(contestants, taken.tolist(), strict=True))


def _affordable(comm: Communicator, rows: Sequence[Call]) -> int:
    comm.barrier()
    start = perf_counter()
    for row in rows:
        row()
    longest = np.array([perf_counter() - start])
    comm.allreduce(longest, "max")
    return int(np.clip(BUDGET * len(rows) / longest[0], FEWEST, MOST))


def overhead(comm: Communicator, calls: int = 100_000) -> float:
    """Seconds of an 8-byte allreduce on a world of one rank: the overhead of a call."""
    x = np.ones(1)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        for _ in range(calls // 5):
            comm.allreduce(x)
        best = min(best, (perf_counter() - start) / (calls // 5))
    return best
