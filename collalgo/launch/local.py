"""Run a function on every rank: as threads of this process, or as processes."""

import pickle
import secrets
import traceback
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from collalgo.base.integers import integer
from collalgo.bootstrap.context import Rendezvous
from collalgo.bootstrap.threads import ThreadRendezvous
from collalgo.comm.communicator import Communicator
from collalgo.comm.current import belonging
from collalgo.comm.failures import reason_of
from collalgo.errors import CollalgoError, PeerFailed

if TYPE_CHECKING:  # what only processes need is imported where it is used
    from multiprocessing.process import BaseProcess

Result = TypeVar("Result")

#: The most ranks that are started here, more than any host has room for.
RANKS = 1 << 20

#: Seconds that the other ranks have to end by themselves when one has failed.
GRACE = 5.0


class RankTraceback(Exception):
    """The cause of an exception that came from another thread or process: its place."""

    def __init__(self, rank: int, text: str):
        super().__init__(f"\n\nraised on rank {rank}:\n{text}")
        self.rank = rank


class _Failure(NamedTuple):
    rank: int
    error: BaseException
    text: str


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
        The number of ranks.
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
    size = integer(size, "size", "threads", 1, RANKS)
    hall = ThreadRendezvous()
    results: list[Any] = [None] * size
    failures: list[_Failure] = []

    def run(rank: int) -> None:
        try:
            results[rank] = _run_rank(fn, hall, rank, size, timeout)
        except BaseException as error:
            failures.append(_Failure(rank, error, traceback.format_exc()))

    ranks = [Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    try:
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    except BaseException as error:  # Ctrl-C: do not leave the others waiting
        hall.abort(f"interrupted by {type(error).__name__}")
        raise
    _raise_first(failures)
    return results


def spawn(
    fn: Callable[[Communicator], Result], size: int, *, timeout: float | None = None
) -> list[Result]:
    """Run ``fn(comm)`` on ``size`` ranks that are new processes of this host.

    Parameters
    ----------
    fn
        Called once on each rank with its communicator; pickled, as are the results,
        so it must be importable from its module.
    size
        The number of ranks.
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
    CollalgoError
        If a process died without an exception.
    """
    import multiprocessing

    size = integer(size, "size", "spawn", 1, RANKS)
    context = multiprocessing.get_context("spawn")
    job = secrets.token_hex(16)
    processes: list[BaseProcess] = []
    pipes: dict[Any, int] = {}
    try:
        for rank in range(size):
            ours, theirs = context.Pipe(duplex=False)
            process: BaseProcess = context.Process(
                target=_child,
                args=(fn, job, rank, size, timeout, theirs),
                name=f"rank {rank}",
            )
            process.start()
            theirs.close()
            processes.append(process)
            pipes[ours] = rank
        results = _collect(processes, pipes)
        for process in processes:
            process.join(GRACE)
        return results
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.kill()
            process.join()
            process.close()


def _run_rank(
    fn: Callable[[Communicator], Result],
    rendezvous: Rendezvous,
    rank: int,
    size: int,
    timeout: float | None,
) -> Result:
    with (
        Communicator(rendezvous.connect("", rank, range(size)), timeout) as comm,
        belonging(comm),
    ):
        try:
            return fn(comm)
        except BaseException as error:
            comm.abort(reason_of(error))
            raise


def _child(
    fn: Callable[[Communicator], object],
    job: str,
    rank: int,
    size: int,
    timeout: float | None,
    pipe: Any,
) -> None:
    """The main of a spawned process: send the result, or what went wrong."""
    import multiprocessing

    from collalgo.bootstrap.rendezvous import HostRendezvous
    from collalgo.launch.process import die_with

    parent = multiprocessing.parent_process()
    assert parent is not None
    die_with(parent.pid)
    try:
        result = _run_rank(fn, HostRendezvous(job), rank, size, timeout)
        message = pickle.dumps((result, None))
    except BaseException as error:
        message = _pickled_failure(_Failure(rank, error, traceback.format_exc()))
    pipe.send_bytes(message)


def _pickled_failure(failure: _Failure) -> bytes:
    try:
        message = pickle.dumps((None, failure))
        pickle.loads(message)
    except Exception:  # an exception that cannot travel: send its text
        error = CollalgoError(str(failure.error), rank=failure.rank)
        message = pickle.dumps((None, failure._replace(error=error)))
    return message


def _collect(processes: "list[BaseProcess]", pipes: dict[Any, int]) -> list[Any]:
    """Wait for all ranks; once one has failed, for the others only a little."""
    from multiprocessing import connection

    from collalgo.launch.process import exit_reason

    results: list[Any] = [None] * len(processes)
    failures: list[_Failure] = []
    waiting = dict(pipes)
    while waiting:
        ready: list[Any] = connection.wait(waiting, GRACE if failures else None)
        if not ready:
            break
        for pipe in ready:
            rank = waiting.pop(pipe)
            try:
                results[rank], failure = pickle.loads(pipe.recv_bytes())
            except EOFError:
                processes[rank].join()
                why = exit_reason(processes[rank].exitcode or 0)
                error = CollalgoError(f"rank {rank} {why}", rank=rank, missing=(rank,))
                failure = _Failure(rank, error, str(error))
            if failure:
                failures.append(failure)
    _raise_first(failures)
    return results


def _raise_first(failures: list[_Failure]) -> None:
    """Raise the first failure that is not only about another rank's."""
    if failures:
        first = next(
            (f for f in failures if not isinstance(f.error, PeerFailed)), failures[0]
        )
        raise first.error from RankTraceback(first.rank, first.text)
