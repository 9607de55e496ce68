"""Ranks that a signal has stopped: they are named, since all others wait for them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from collalgo.base import proc
from collalgo.base.threads import ThreadRefused, start
from collalgo.launch.messages import report
from collalgo.launch.ranks import Rank

#: Seconds between two polls of the ranks; one that is stopped at both is named.
PERIOD = 2.0

#: The state of a process that a signal has stopped, not a debugger.
STOPPED = "T"


@contextmanager
def stopped_ranks_reported(
    running: Callable[[], Sequence[Rank]], period: float = PERIOD
) -> Iterator[None]:
    """Report each running rank that is stopped for some seconds, until the end.

    A launcher that is suspended with its ranks reports nothing, as it does not run.
    """
    end = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(running, end, period), name="collalgo stopped ranks"
    )
    watch.daemon = True
    with suppress(ThreadRefused):
        start(watch)
    try:
        yield
    finally:
        end.set()


def _watch(
    running: Callable[[], Sequence[Rank]], end: threading.Event, period: float
) -> None:
    suspects: set[int] = set()
    reported: set[int] = set()
    while not end.wait(period):
        stopped = {rank.process.pid: rank for rank in running() if _is_stopped(rank)}
        for process in suspects & stopped.keys() - reported:
            report(
                f"rank {stopped[process].rank} (process {process}) is stopped by a "
                f"signal, and the others may wait for it; continue it by kill -CONT "
                f"{process}"
            )
            reported.add(process)
        reported &= stopped.keys()
        suspects = set(stopped)


def _is_stopped(rank: Rank) -> bool:
    """Whether a signal has stopped a rank; not if it has just ended."""
    with suppress(OSError, IndexError):
        return proc.state(rank.process.pid)[0] == STOPPED
    return False
