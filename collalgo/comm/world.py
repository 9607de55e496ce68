"""Initialisation: the world of this process."""

import sys
from types import TracebackType
from typing import Any

from collalgo.base import disk_cache, environment
from collalgo.base.finalizers import Lock
from collalgo.base.hooks import hook
from collalgo.base.signal_handlers import dump_stacks_on_quit
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.descent import mark_rank, refuse_child
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.timeouts import checked_timeout
from collalgo.comm import current
from collalgo.comm.communicator import Communicator
from collalgo.comm.reasons import reason_of
from collalgo.comm.tracing.dump import listen
from collalgo.engine.transport.engine import asked_for
from collalgo.schedule.collective import COLLECTIVES

_lock = Lock()
_world: Communicator | None = None


def init(
    store: Any = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    secret: str | None = None,
    engine: str | None = None,
    timeout: float | None = None,
    join_timeout: float | None = None,
) -> Communicator:
    """Join the world that the launcher describes; a process alone is a world of one.

    Calling it again gives the same communicator, until that is closed. In a function
    run by :func:`collalgo.threads` or :func:`collalgo.spawn` it gives that rank's.

    Parameters
    ----------
    store
        The key-value store for the rendezvous; by default the launcher's.
        ``"tcp://HOST:PORT"``: an address of rank 0 with a free port;
        ``"file:///PATH"``: an empty or new folder on a shared file system;
        ``"etcd://HOST:PORT/KEY"``: new keys of etcd; ``"env://"``: ``MASTER_ADDR``,
        ``MASTER_PORT``, ``RANK`` and ``WORLD_SIZE``; or an object with
        ``set(key, value)`` and ``get(key, timeout)``, as the stores of torch.
    rank, size
        The rank and the number of ranks, unless the store defines them.
    secret
        The shared secret of the job, any text, for a store by TCP; by default that of
        ``COLLALGO_SECRET``, which has the hexadecimal digits of its bytes in UTF-8.
    engine
        The library that carries messages between hosts: ``"mpi"``, under an mpiexec, or
        ``"ucx"``; by default ``COLLALGO_ENGINE``, else MPI under an mpiexec and UCX
        without one.
    timeout
        Seconds that calls wait for other ranks; by default the environment variable
        ``COLLALGO_TIMEOUT``, or 300.
    join_timeout
        Seconds to wait for all ranks to join; by default 60, or ``timeout`` if that is
        passed and shorter.

    Returns
    -------
    Communicator
        All the ranks of the job.

    Raises
    ------
    BootstrapError
        If the ranks cannot connect, or the engine cannot be used.
    VariableError
        If an environment variable of the library has a wrong value.
    """
    global _world  # noqa: PLW0603
    own = current.of_thread.world
    if isinstance(own, Communicator) and not own.forked:
        return own
    with _lock:
        if _world is None or _world.closed or _world.forked:
            environment.check(COLLECTIVES)
            engine = asked_for(engine)
            seconds = _join_seconds(timeout, join_timeout)
            _install_hooks()
            _world = _joined(JoinArguments(store, rank, size, secret, engine, seconds))
            current.of_process.world, current.of_thread.world = _world, None
            if _world.rank == 0:
                environment.warn_unknown(COLLECTIVES)
                disk_cache.report_problems()
                environment.warn_of_topology(_world.hosts)
        if timeout is not None:
            _world.timeout = timeout
        return _world


def _join_seconds(timeout: float | None, join_timeout: float | None) -> float:
    """The seconds to wait for all ranks to join."""
    if join_timeout is not None:
        return checked_timeout(join_timeout, "join_timeout")
    if timeout is not None:
        return min(checked_timeout(timeout), JOIN_TIMEOUT)
    return JOIN_TIMEOUT


def _joined(arguments: JoinArguments) -> Communicator:
    """Join a new world."""
    from collalgo.bootstrap.join import join

    me = arguments.launched
    if me is not None:
        refuse_child()
    if (arguments.rank if me is None else me.rank) == 0:
        environment.TOPOLOGY.value()  # which is checked on one host, too
    world: Communicator = (
        hook("world of MPI")(arguments)
        if arguments.over_mpi
        else Communicator(join(arguments))
    )
    if me is not None and world.size > 1:
        mark_rank(world.rank, world.size)
    return world


def _install_hooks() -> None:
    """Report uncaught exceptions to the other ranks, and handle signals.

    SIGUSR1 dumps the calls, and SIGQUIT the stacks.
    """
    listen()
    dump_stacks_on_quit()
    if sys.excepthook is not _report_exception:
        _previous_hooks.append(sys.excepthook)
        sys.excepthook = _report_exception


_previous_hooks: list[Any] = []


def _report_exception(
    kind: type[BaseException], error: BaseException, place: TracebackType | None
) -> None:
    """Leave the world if an uncaught exception ends this process.

    The interpreter sets ``sys.last_value`` before it calls the hook. A program that
    calls the hook to report an error goes on, as does an interactive session.
    """
    ends = error is getattr(sys, "last_value", None) and not hasattr(sys, "ps1")
    if ends and _world is not None and not _world.forked:
        _world.abort(reason_of(error), with_groups=True)
    _previous_hooks[-1](kind, error, place)
