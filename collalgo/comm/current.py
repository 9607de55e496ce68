"""The current world: the default communicator of calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

from collalgo._kernels.comm.call_runner import CallRunner, CommunicatorBase
from collalgo.base.foreign import package_of
from collalgo.base.hooks import hook, is_registered


class WorldOfThread(local):
    """The world of a thread that is a rank itself."""

    world: CommunicatorBase | None = None


class WorldOfProcess:
    """The world of a process that is one rank, and that of a framework, as of torch."""

    world: CommunicatorBase | None = None
    foreign: CommunicatorBase | None = None


of_thread = WorldOfThread()
of_process = WorldOfProcess()


@contextmanager
def belonging(comm: CommunicatorBase) -> Iterator[None]:
    """Make ``comm`` the world of this thread, as for a rank that was started here."""
    before, of_thread.world = of_thread.world, comm
    try:
        yield
    finally:
        of_thread.world = before


def resolve(comm: Any) -> CommunicatorBase:
    """The communicator that a function was given; None means the world.

    Raises
    ------
    TypeError
        If it is neither one of collalgo nor one of mpi4py.
    """
    if isinstance(comm, CommunicatorBase):
        return comm
    if comm is None:
        return of_thread.world or of_process.world or hook("init")()
    package = package_of(comm)
    if is_registered(f"communicator of {package}"):
        found: CommunicatorBase = hook(f"communicator of {package}")(comm)
        return found
    raise TypeError(
        f"comm is of type {type(comm).__name__}; pass a Communicator of collalgo or of "
        "mpi4py, or nothing for the world of collalgo.init()"
    )


def runner_of(comm: Any) -> CallRunner:
    """The runner of the communicator that a function was given."""
    found = resolve(comm)
    return found if isinstance(found, CallRunner) else found._runner
