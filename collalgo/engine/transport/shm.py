"""Ranks as processes of one host, through an unnamed memory file.

Nothing appears in /dev/shm, its size limit does not apply, and nothing is left when the
last rank ends, in whatever way.
"""

import errno
import os
import resource
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
    BACKGROUND,
    SHARING,
    patience,
)
from collalgo.errors import BootstrapError


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
        raise _no_memory(size, nbytes, error) from None
    return descriptor


def _no_memory(size: int, nbytes: int, error: OSError) -> BootstrapError:
    """The error if the memory of some ranks cannot be made."""
    limit, advice = resource.getrlimit(resource.RLIMIT_FSIZE)[0], ""
    if error.errno == errno.EFBIG and limit != resource.RLIM_INFINITY:
        advice = (
            f"; the limit of the length of files is {limit} bytes: "
            f"ulimit -f {-(-nbytes // 1024)}, or unlimited"
        )
    return BootstrapError(
        f"rank 0 cannot make the memory that {size} ranks share, of {nbytes} bytes "
        f"({error.strerror}){advice}",
        rank=0,
    )


def attach(
    segment: Segment,
    rank: int,
    size: int,
    cores: int | None,
    members: Sequence[int] = (),
    world_size: int = 0,
    processes: Sequence[int] = (),
) -> SharedMemory:
    """Attach a rank to memory that it shares with others, and ``cores`` cores.

    In a world on several hosts, ``members`` are the ranks of this host. ``processes``
    are theirs, whose memory may be read.
    """
    across = world_size > size
    waiting = ACROSS_HOSTS if across else patience(size, cores)
    # In the background, each rank has a second thread beside the one that computes.
    crowded = patience(2 * size, cores) == SHARING
    background = BACKGROUND if crowded else waiting
    lacks_cores = not across and patience(size + 1, cores) == SHARING
    return SharedMemory(
        segment, rank, size, waiting, background, lacks_cores, members, world_size,
        processes,
    )  # fmt: skip


def set_settings(descriptor: int, size: int, numbers: list[float]) -> None:
    """Write settings for all ranks into a memory file, before any rank attaches."""
    write_settings(Segment(descriptor, size), numbers)


def process_ends(processes: list[int], me: int) -> dict[int, int]:
    """For other ranks, a descriptor that is readable once their process has ended.

    An unknown process (0), as in another namespace, is left out, and so are all if the
    ids are of another namespace, and threads of this process.
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
