"""Cut a long call into waves: all steps on the first part of every chunk, and so on.

What a step leaves is then still in the caches for the next one, steps of several waves
are under way at once, and the memory that the ranks share need not hold the message.
A wave is the same schedule on shorter chunks, so it needs no proof of its own.
"""

from functools import lru_cache
from math import lcm
from typing import NamedTuple

from collalgo.schedule import ScheduleFunction, trace
from collalgo.schedule.transfers import TransferTable

#: What a rank sends at most in one step of a wave, in bytes.
WAVE_BYTES = 512 << 10

#: How many times as much it takes in one, where many send it something: 16 ranks that
#: had cores of their own took an allgather of 8 MiB two thirds as long in two waves.
TAKEN = 8

#: What a rank sends at most where ranks share cores, if no message of it is longer than
#: half a WAVE_BYTES: each wave takes turns of all ranks.
TURN_BYTES = 1 << 20

#: With more ranks, or chunks that are finer, a call is one wave.
RANKS, PARTS = 64, 4096


class Waves(NamedTuple):
    """How many waves, and on how many equal parts of the buffer they are cut."""

    count: int = 1  # type: ignore[assignment]
    parts: int = 1


@lru_cache(maxsize=4096)
def grid(schedule: ScheduleFunction, size: int, root: int) -> int:
    """The parts of the buffer of which all chunks of all ranks are made."""
    return TransferTable(
        [trace(schedule, rank, size, root) for rank in range(size)]
    ).grid


@lru_cache(maxsize=4096)
def step_count(schedule: ScheduleFunction, size: int, root: int) -> int:
    """How many steps the rank takes that takes the most."""
    return max(len(trace(schedule, rank, size, root)) for rank in range(size))


def cut(
    count: int, schedule: ScheduleFunction, size: int, root: int, blocks: int
) -> Waves:
    """So many waves of a call, or one where that cannot be.

    Parameters
    ----------
    count
        How many waves are wanted.
    schedule
        The algorithm.
    size, root
        The number of ranks, and the root.
    blocks
        How many blocks of the buffer belong to somebody, as in an allgather.
    """
    parts = lcm(grid(schedule, size, root), blocks) if count > 1 else PARTS + 1
    return Waves(count, parts) if parts <= PARTS else Waves()
