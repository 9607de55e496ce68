"""Ranks as threads of one process: for tests, teaching and notebooks."""

import os

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.engine.heap import mapped
from collalgo.engine.transport.waiting import Turns, patience


def world(size: int, waiting: Turns | None = None) -> list[SharedMemory]:
    """The ends of a new world, one for each of ``size`` threads.

    Parameters
    ----------
    size
        The number of threads.
    waiting
        How long they wait before they sleep; by default what suits the cores.
    """
    segment = mapped(size)
    waiting = waiting or patience(size)
    ends = [SharedMemory(segment, rank, size, waiting, waiting) for rank in range(size)]
    for end in ends:
        end.allow_fetching([os.getpid()] * size)
    return ends
