"""Run a function on every rank, as new processes of this host."""

import pickle
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from collalgo.base.integers import integer
from collalgo.comm.communicator import Communicator
from collalgo.errors import CollalgoError
from collalgo.launch.rank_function import (
    MAX_RANKS,
    Failure,
    RankFunction,
    failure_of,
    raise_first,
)

if TYPE_CHECKING:  # imported where it is used, so that threads need none of it
    from multiprocessing.process import BaseProcess

Result = TypeVar("Result")

#: Seconds that the other ranks have to end by themselves when one has failed.
GRACE = 5.0


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
    size = integer(size, "size", "spawn", 1, MAX_RANKS)
    _check_importable(fn)
    job, function = secrets.token_hex(16), RankFunction(fn, size, timeout)
    processes: list[BaseProcess] = []
    pipes: dict[Any, int] = {}
    try:
        for rank in range(size):
            process, pipe = _start(function, job, rank)
            processes.append(process)
            pipes[pipe] = rank
        results = _collect(processes, pipes)
        for process in processes:
            process.join(GRACE)
        return results
    finally:
        for pipe in pipes:
            pipe.close()
        _end(processes)


def _end(processes: "Sequence[BaseProcess]") -> None:
    """Kill the processes that are still running."""
    for process in processes:
        process.kill()
        process.join()
        process.close()


def _check_importable(fn: Callable[..., object]) -> None:
    """Check that a new process can import a function.

    Raises
    ------
    CollalgoError
        If not.
    """
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    main = module is not None and module.__name__ == "__main__"
    try:
        pickle.dumps(fn)
        reason = "its module is no file" if main and not _has_file(module) else ""
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        reason = str(error)
    if reason:
        name = getattr(fn, "__qualname__", repr(fn))
        raise CollalgoError(
            f"spawn: a new process cannot import {name} ({reason}); define it at the "
            "top of a file, or run the ranks in this process: collalgo.threads(fn, "
            "size)"
        )


def _has_file(module: ModuleType | None) -> bool:
    """Whether a new process can import a main module again."""
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    return spec is not None or (file is not None and Path(file).is_file())


def _start(function: RankFunction, job: str, rank: int) -> "tuple[BaseProcess, Any]":
    """Start the process of a rank; it, and the pipe with its result."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process: BaseProcess = context.Process(
        target=_rank_main, args=(function, job, rank, writer), name=f"rank {rank}"
    )
    process.start()
    writer.close()
    return process, reader


def _rank_main(function: RankFunction, job: str, rank: int, pipe: Any) -> None:
    """Run the function in a spawned process; send its result or failure."""
    import multiprocessing

    from collalgo.bootstrap.rendezvous import HostRendezvous
    from collalgo.launch.process import die_with

    parent = multiprocessing.parent_process()
    assert parent is not None
    die_with(parent.pid)
    try:
        result = function.run(HostRendezvous(job), rank)
        message = pickle.dumps((result, None))
    except BaseException as error:
        message = _pickled_failure(failure_of(rank, error))
    pipe.send_bytes(message)


def _pickled_failure(failure: Failure) -> bytes:
    try:
        message = pickle.dumps((None, failure))
        pickle.loads(message)
    except Exception:  # the exception cannot be pickled: send its text
        error = CollalgoError(str(failure.error), rank=failure.rank)
        message = pickle.dumps((None, failure._replace(error=error)))
    return message


def _collect(processes: "list[BaseProcess]", pipes: dict[Any, int]) -> list[Any]:
    """The results of all ranks; after a failure, the others have ``GRACE`` seconds."""
    from multiprocessing import connection

    results: list[Any] = [None] * len(processes)
    failures: list[Failure] = []
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
                failure = _death(rank, processes[rank])
            if failure:
                failures.append(failure)
    raise_first(failures)
    return results


def _death(rank: int, process: "BaseProcess") -> Failure:
    """The failure of a rank whose process ended without a result."""
    from collalgo.launch.process import exit_reason

    process.join()
    reason = exit_reason(process.exitcode or 0)
    error = CollalgoError(f"rank {rank} {reason}", rank=rank, missing=(rank,))
    return Failure(rank, error, str(error))
