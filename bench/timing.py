"""Time calls on all ranks at once, several contestants side by side in one run."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np
from collalgo.bench.peers.worker import as_one, starting_barrier
from numpy.typing import NDArray

from collalgo import Communicator

Call = Callable[[], object]

#: How long the measurement of one contestant may take, in seconds, and how often it
#: is repeated at least and at most.
BUDGET = 0.4
FEWEST, MOST = 5, 2000

#: How long calls in a row last at least, and how many they are at most.
LONG, ROW = 1e-4, 64


def race(
    comm: Communicator,
    contestants: Sequence[Call],
    iterations: int | None = None,
    warmup: int = 2,
    before: Call = lambda: None,
    in_a_row: int = 1,
) -> NDArray[np.float64]:
    """Time calls in turn, so that what disturbs one disturbs the others too.

    Each call begins at a barrier; its time is that of the slowest rank. Every time they
    come in another order, the same on all ranks, so that none always follows another.
    Of several calls in a row the first begins at a barrier, and each counts alike.

    Parameters
    ----------
    comm
        The ranks that call.
    contestants
        Functions to call on every rank.
    iterations
        How often; by default as often as fits into :data:`BUDGET`.
    warmup
        How often each is called before, for plans, pages and caches.
    before
        What is done before each barrier.
    in_a_row
        So many calls of a contestant are timed together; see :func:`row_of`.

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
    meet = starting_barrier(comm)
    seconds = np.empty((iterations, len(rows)))
    order = np.random.default_rng(len(contestants))
    for iteration in range(iterations):
        for number in order.permutation(len(rows)).tolist():
            row = rows[number]
            before()
            meet()
            start = perf_counter()
            row()
            seconds[iteration, number] = perf_counter() - start
    comm.allreduce(seconds, "max")
    each: NDArray[np.float64] = seconds.T / in_a_row
    return each


def row_of(
    comm: Communicator, contestants: Sequence[Call], seconds: float = LONG
) -> int:
    """How many calls of the quickest contestant last so long.

    A single short call is timed from a barrier that the ranks leave one after the
    other, and where they share cores it lasts until all have had their turn: what that
    takes depends on who waited where at the barrier, and on the algorithm hardly.
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
    """Seconds of an 8-byte allreduce on a world of one rank: nothing but the call."""
    x = np.ones(1)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        for _ in range(calls // 5):
            comm.allreduce(x)
        best = min(best, (perf_counter() - start) / (calls // 5))
    return best
