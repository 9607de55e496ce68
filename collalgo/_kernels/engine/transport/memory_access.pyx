# cython: language_level=3
"""Process ids of the ranks of this host, and access to their memory."""

from libc.stdint cimport int64_t
from posix.unistd cimport getpid

from collalgo._kernels.engine.transport.endpoint cimport can_read_memory


def can_read_memory_of(processes):
    """Whether this process may read the memory of all these processes."""
    return all(process and can_read_memory(process) for process in processes)


def are_numbered_here(processes, int64_t rank):
    """Whether process ids are of this namespace: that of this rank is its own.

    Ids of another namespace may belong to unrelated processes here.
    """
    return processes[rank] == getpid()
