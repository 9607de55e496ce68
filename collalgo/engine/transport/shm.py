"""Ranks as processes of one host, through a memory file that has no name.

Nothing appears in /dev/shm, no limit of it applies, and nothing is left when the last
rank ends, however it ends.
"""

import os
from collections.abc import Sequence

from collalgo._kernels.engine.transport.processes import are_numbered_here
from collalgo._kernels.engine.transport.segment import (
    Segment,
    segment_size,
    write_settings,
)
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.engine.heap import heap_bytes
from collalgo.engine.transport.waiting import (
    ACROSS_HOSTS,
    GIVING_WAY,
    SHARING,
    patience,
)


def create(size: int) -> int:
    """The descriptor of the memory of a new world of ``size`` ranks."""
    descriptor = os.memfd_create("collalgo", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, segment_size(size, heap_bytes(size)))
    return descriptor


def attach(
    segment: Segment,
    rank: int,
    size: int,
    cores: int | None,
    members: Sequence[int] = (),
    world_size: int = 0,
) -> SharedMemory:
    """One rank's end of the memory of a host whose ranks have so many cores together.

    Of a world on several hosts ``members`` are the ranks of this one.
    """
    across = world_size > size
    waiting = ACROSS_HOSTS if across else patience(size, cores)
    # In the background each rank has a thread besides the one that computes.
    crowded = patience(2 * size, cores) == SHARING
    giving_way = GIVING_WAY if crowded else waiting
    lacks_cores = not across and patience(size + 1, cores) == SHARING
    return SharedMemory(
        segment, rank, size, waiting, giving_way, lacks_cores, members, world_size
    )


def set_settings(descriptor: int, size: int, numbers: list[float]) -> None:
    """Write numbers for all ranks into a memory file, before any of them attaches."""
    write_settings(Segment(size, 0, descriptor), numbers)


def watch(transport: SharedMemory, processes: list[int]) -> list[int]:
    """Let a rank notice the death of the others: the descriptors to close at the end.

    A process that is unknown (0), as in another namespace, is left out, and so are all
    where the numbers are those of another namespace.
    """
    if not are_numbered_here(processes, transport.rank):
        return []
    descriptors = []
    for rank, process in enumerate(processes):
        if rank != transport.rank and process:
            descriptors.append(_end_of(process))
            transport.watch(rank, descriptors[-1])
    return descriptors


def _end_of(process: int) -> int:
    """A descriptor that becomes readable when a process ends, or is if it has ended."""
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        ended, of_nobody = os.pipe()
        os.close(of_nobody)
        return ended
