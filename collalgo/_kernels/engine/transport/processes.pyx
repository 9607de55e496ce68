# cython: language_level=3, freethreading_compatible=True
"""Which processes of this host this one knows by their numbers, and may read."""

from libc.stdint cimport int64_t
from posix.unistd cimport getpid

from collalgo._kernels.engine.transport.endpoint cimport may_fetch


def may_read(processes):
    """Whether this process may read the memory of all these processes."""
    return all(process and may_fetch(process) for process in processes)


def are_numbered_here(processes, int64_t rank):
    """Whether the numbers of processes are of my namespace: mine is what it says.

    Those of another may here be the numbers of strangers.
    """
    return processes[rank] == getpid()
