"""The world that this process belongs to, and the worlds that it starts itself."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local
from types import TracebackType
from typing import Any

from collalgo.base.foreign import package_of
from collalgo.base.hooks import hook, is_registered
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.comm.communicator import Communicator
from collalgo.comm.failures import reason_of
from collalgo.comm.tracing.dump import listen
from collalgo.engine.transport.engine import asked_for

_lock = Lock()
_world: Communicator | None = None


class _OfThread(local):
    """The world of a thread that is a rank itself."""

    world: Communicator | None = None


_of_thread = _OfThread()


def init(
    store: Any = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    secret: str | None = None,
    engine: str | None = None,
    timeout: float | None = None,
    join_timeout: float = JOIN_TIMEOUT,
) -> Communicator:
    """Come up as the launcher says; a process alone is a world of one.

    Calling it again gives the same communicator, until that is closed. In a function
    run by :func:`collalgo.threads` or :func:`collalgo.spawn` it gives that rank's.

    Parameters
    ----------
    store
        Where the ranks meet, if they are not to ask a launcher: ``"tcp://HOST:PORT"``
        of rank 0, at a port that is free there; ``"file:///PATH"``, a folder that is
        empty or does not exist yet, on a file system that all ranks see;
        ``"etcd://HOST:PORT/KEY"``, keys of etcd that do not exist yet; ``"env://"``,
        what ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK`` and ``WORLD_SIZE`` say; or a
        store with ``set(key, value)`` and ``get(key, timeout)``, as those of torch are.
    rank, size
        Which of how many ranks this is, if the place does not say so.
    secret
        What only the ranks of the job know, for a place by TCP; by default
        ``COLLALGO_SECRET``.
    engine
        What is to carry messages between hosts, and nothing else: ``"mpi"``, under an
        mpiexec, or ``"ucx"``; by default what ``COLLALGO_ENGINE`` says, else MPI under
        an mpiexec and UCX without one.
    timeout
        Seconds that calls wait for other ranks; by default the environment variable
        ``COLLALGO_TIMEOUT``, or 300.
    join_timeout
        Seconds to wait for all ranks to come up.

    Returns
    -------
    Communicator
        All the ranks of the job.

    Raises
    ------
    BootstrapError
        If the ranks do not find each other, or the engine asked for cannot be used.
    """
    global _world  # noqa: PLW0603
    from collalgo.bootstrap.join import join

    own = _of_thread.world
    if own is not None:
        return own
    with _lock:
        if _world is None or _world.closed or _world.forked:
            engine = asked_for(engine)
            _listen()
            arguments = JoinArguments(store, rank, size, secret, engine, join_timeout)
            if arguments.over_mpi:
                _world = hook("world of MPI")(arguments)
            else:
                _world = Communicator(join(arguments))
        if timeout is not None:
            _world.timeout = timeout
        return _world


@contextmanager
def belonging(comm: Communicator) -> Iterator[None]:
    """Let ``comm`` be the world of this thread, as for a rank that was started here."""
    _of_thread.world = comm
    try:
        yield
    finally:
        _of_thread.world = None


def _listen() -> None:
    """Report an uncaught exception to the other ranks; dump the calls on a signal."""
    listen()
    if sys.excepthook is not _tell_the_others:
        _previous_hooks.append(sys.excepthook)
        sys.excepthook = _tell_the_others


_previous_hooks: list[Any] = []


def _tell_the_others(
    kind: type[BaseException], error: BaseException, place: TracebackType | None
) -> None:
    """Let an uncaught exception end this rank's part in the world, with its reason."""
    if _world is not None and not _world.forked:
        _world.abort(reason_of(error))
    _previous_hooks[-1](kind, error, place)


def resolve(comm: Any) -> Communicator:
    """The communicator that a function was given; None stands for the world.

    Raises
    ------
    TypeError
        If it is neither one of collalgo nor one of mpi4py.
    """
    if isinstance(comm, Communicator):
        return comm
    if comm is None:
        return _of_thread.world or _world or init()
    package = package_of(comm)
    if is_registered(f"communicator of {package}"):
        found: Communicator = hook(f"communicator of {package}")(comm)
        return found
    raise TypeError(
        f"comm is of type {type(comm).__name__}; pass a Communicator of collalgo or of "
        "mpi4py, or nothing for the world of collalgo.init()"
    )
