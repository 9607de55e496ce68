"""Ranks as threads of one process: for tests, teaching and notebooks."""

import os

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.engine.heap import mapped
from collalgo.engine.transport.waiting import WaitPolicy, patience


def world(size: int, waiting: WaitPolicy | None = None) -> list[SharedMemory]:
    """The transports of a new world, one for each of ``size`` threads.

    Parameters
    ----------
    size
        The number of threads.
    waiting
        The polls of a wait before it sleeps; by default, by the number of cores.
    """
    segment = mapped(size)
    waiting = waiting or patience(size)
    ends = [SharedMemory(segment, rank, size, waiting, waiting) for rank in range(size)]
    for end in ends:
        end.allow_fetching([os.getpid()] * size)
    return ends
