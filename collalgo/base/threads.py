"""Threads of the library, and the reason if the system refuses one."""

import resource
from threading import Thread

from collalgo.errors import CollalgoError


class ThreadRefused(CollalgoError):
    """The system lets this process start no further thread."""


def start(thread: Thread) -> Thread:
    """Start a thread.

    Raises
    ------
    ThreadRefused
        If the limit of processes and threads is reached, or memory is short.
    """
    try:
        thread.start()
    except RuntimeError:
        limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        most = "any number of" if limit == resource.RLIM_INFINITY else f"{limit}"
        raise ThreadRefused(
            f"the system refuses the thread {thread.name!r}: this user may have {most} "
            "processes and threads (ulimit -u), the container has a limit of its own, "
            "or memory is short; raise the limit, or run fewer ranks"
        ) from None
    return thread
