"""Run a function on every rank, as threads of this process."""

from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

from collalgo.base.integers import integer
from collalgo.base.threads import start
from collalgo.bootstrap.threads import ThreadRendezvous
from collalgo.comm.communicator import Communicator
from collalgo.launch.hosts import MAX_SLOTS
from collalgo.launch.rank_function import (
    Failure,
    failure_of,
    raise_first,
    run_as_rank,
)

Result = TypeVar("Result")


def threads(
    fn: Callable[[Communicator], Result], size: int, *, timeout: float | None = None
) -> list[Result]:
    """Run ``fn(comm)`` on ``size`` ranks that are threads of this process.

    For tests, teaching and notebooks: the same engine as between processes.

    Parameters
    ----------
    fn
        Called once on each rank with its communicator.
    size
        The number of ranks, 1 to 4096.
    timeout
        Seconds that calls wait for other ranks; see :func:`collalgo.init`.

    Returns
    -------
    list
        What each rank returned, by rank.

    Raises
    ------
    Exception
        The first that a rank raised; its ``__cause__`` names the rank and the place.
    """
    size = integer(size, "size", "threads", 1, MAX_SLOTS)
    rendezvous = ThreadRendezvous()
    results: list[Any] = [None] * size
    failures: list[Failure] = []

    def run(rank: int) -> None:
        try:
            context = rendezvous.connect("", rank, range(size))
            results[rank] = run_as_rank(Communicator(context, timeout), fn)
        except BaseException as error:
            failures.append(failure_of(rank, error))

    _run_all(
        [Thread(target=run, args=(r,), daemon=True) for r in range(size)], rendezvous
    )
    raise_first(failures)
    return results


def _run_all(ranks: list[Thread], rendezvous: ThreadRendezvous) -> None:
    """Start all threads and wait for their end."""
    try:
        for rank in ranks:
            start(rank)
        for rank in ranks:
            rank.join()
    except BaseException as error:  # Ctrl-C: do not leave the others waiting
        rendezvous.abort(f"interrupted by {type(error).__name__}")
        raise
