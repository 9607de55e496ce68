"""Ranks as threads of one process: for tests, teaching and notebooks."""

import os

from collalgo._kernels.engine.transport.segment import Segment
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.engine.heap import mapped
from collalgo.engine.transport import shm
from collalgo.engine.transport.waiting import WaitPolicy, Waits, patience


def memory(size: int) -> Segment:
    """The memory of ``size`` threads."""
    descriptor = shm.create(size)
    try:
        return mapped(size, descriptor, of_threads=True)
    finally:
        os.close(descriptor)


def attach(
    segment: Segment, rank: int, size: int, waiting: WaitPolicy | None = None
) -> SharedMemory:
    """Attach a thread to memory that it shares with others.

    ``waiting`` is by default as for the cores of this process.
    """
    waiting = waiting or patience(size)
    waits = Waits(waiting, waiting)
    return SharedMemory(segment, rank, size, waits, process=os.getpid())


def world(size: int, waiting: WaitPolicy | None = None) -> list[SharedMemory]:
    """The transports of a new world, one for each of ``size`` threads.

    Parameters
    ----------
    size
        The number of threads.
    waiting
        The polls of a wait before it sleeps; by default, by the number of cores.
    """
    segment = memory(size)
    waiting = waiting or patience(size)
    return [attach(segment, rank, size, waiting) for rank in range(size)]
