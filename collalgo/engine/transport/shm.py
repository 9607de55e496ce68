"""Ranks as processes of one host, through an unnamed memory file.

Nothing appears in /dev/shm, its size limit does not apply, and nothing is left when the
last rank ends, in whatever way.
"""

import os

from collalgo._kernels.engine.transport.memory_access import (
    are_numbered_here,
    can_read_memory_of,
)
from collalgo._kernels.engine.transport.segment import (
    Segment,
    segment_size,
    write_settings,
)
from collalgo.engine.heap import heap_bytes
from collalgo.engine.transport.limits import not_made


def create(size: int) -> int:
    """Create the memory of a host of ``size`` ranks; return its descriptor."""
    nbytes = segment_size(size, heap_bytes(size))
    descriptor = -1
    try:
        descriptor = os.memfd_create("collalgo", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, nbytes)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise not_made(size, nbytes, error) from None
    return descriptor


def set_settings(descriptor: int, size: int, numbers: list[float]) -> None:
    """Write settings for all ranks into a memory file, before any rank attaches."""
    write_settings(Segment(descriptor, size), numbers)


def readable(processes: list[int], me: int) -> set[int]:
    """The other ranks whose memory this process can read.

    The result is empty if the ids are of another namespace.
    """
    if not are_numbered_here(processes, me):
        return set()
    others = {rank for rank in range(len(processes)) if rank != me}
    return {rank for rank in others if can_read_memory_of([processes[rank]])}


def process_ends(processes: list[int], me: int) -> dict[int, int]:
    """For other ranks, a descriptor that is readable once their process has ended.

    Unknown processes (0), as in another namespace, and threads of this process have
    none; without ids of this namespace the result is empty.
    """
    if not are_numbered_here(processes, me):
        return {}
    return {
        rank: _end_of(process)
        for rank, process in enumerate(processes)
        if process not in (0, processes[me])
    }


def _end_of(process: int) -> int:
    """A descriptor that is readable once a process has ended."""
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        ended, writer = os.pipe()
        os.close(writer)
        return ended
