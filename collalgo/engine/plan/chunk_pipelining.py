"""Chunk pipelining: run a long call in slices, one part of every chunk after the other.

The result of a step is then still in the caches at the next step, steps of several
slices overlap, and the shared memory need not hold a whole message. A slice is the same
schedule on shorter chunks, so it needs no proof of its own.
"""

from functools import lru_cache
from math import lcm
from typing import NamedTuple

from collalgo.schedule import ScheduleFunction, trace
from collalgo.schedule.transfers import TransferTable

#: The most bytes that a rank sends in one step of a slice.
SLICE_BYTES = 512 << 10

#: The most bytes that it receives in one, in multiples of that: 16 ranks with cores of
#: their own took an allgather of 8 MiB two thirds as long in two slices.
TAKEN = 8

#: The most bytes that a rank sends in one step where ranks share cores, if no message
#: is longer than half of SLICE_BYTES: each slice costs a turn of each rank.
TURN_BYTES = 1 << 20

#: With more ranks, or finer chunks, a call is not sliced.
RANKS, PARTS = 64, 4096


class Slicing(NamedTuple):
    """The number of slices, and the equal parts of the buffer that each is cut from."""

    count: int = 1  # type: ignore[assignment]
    parts: int = 1


def grid(schedule: ScheduleFunction, size: int, root: int) -> int:
    """The parts of the buffer that make up all chunks of all ranks."""
    return _shape(schedule, size, root)[0]


def step_count(schedule: ScheduleFunction, size: int, root: int) -> int:
    """The number of steps of the rank with the most steps."""
    return _shape(schedule, size, root)[1]


@lru_cache(maxsize=4096)
def _shape(schedule: ScheduleFunction, size: int, root: int) -> tuple[int, int]:
    """The parts of a schedule, and its number of steps, from a trace of all ranks."""
    steps = [trace(schedule, rank, size, root) for rank in range(size)]
    return TransferTable(steps).grid, max(map(len, steps))


def cut(
    count: int, schedule: ScheduleFunction, size: int, root: int, blocks: int
) -> Slicing:
    """The slicing of a call into ``count`` slices, or none if its chunks are too fine.

    Parameters
    ----------
    count
        The number of slices.
    schedule
        The algorithm.
    size, root
        The number of ranks, and the root.
    blocks
        The number of blocks of the buffer that belong to a rank, as in an allgather.
    """
    parts = lcm(grid(schedule, size, root), blocks) if count > 1 else PARTS + 1
    return Slicing(count, parts) if parts <= PARTS else Slicing()
