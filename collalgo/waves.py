"""Cut a long call into waves: all steps on the first part of every chunk, and so on.

What a step leaves is then still in the caches for the next one, steps of several waves
are under way at once, and the memory that the ranks share need not hold the message.
A wave is the same schedule on shorter chunks, so it needs no proof of its own.
"""

from functools import lru_cache
from math import ceil, lcm
from typing import NamedTuple

from collalgo.schedule import ScheduleFunction, trace
from collalgo.transfers import TransferTable

#: What a rank sends at most in one step of a wave, in bytes.
WAVE_BYTES = 256 << 10

#: With more ranks or finer chunks than these a call is one wave.
RANKS, PARTS = 64, 4096


class Waves(NamedTuple):
    """How many waves, and on how many equal parts of the buffer they are cut."""

    count: int = 1  # type: ignore[assignment]
    parts: int = 1


class Outline(NamedTuple):
    """The parts of the buffer of which every chunk of every rank is made.

    ``heaviest`` is the most that a rank sends in one step, as a share of the buffer.
    """

    parts: int
    heaviest: float


@lru_cache(maxsize=4096)
def outline(schedule: ScheduleFunction, size: int, root: int = 0) -> Outline:
    """What has to be known of a schedule, the same at all ranks."""
    table = TransferTable([trace(schedule, rank, size, root) for rank in range(size)])
    share = table.share[table.place] / table.grid
    sent = table.total(table.posted, share)
    return Outline(table.grid, float(sent.max(initial=0.0)))


def count(heaviest: float, nbytes: float) -> int:
    """How many waves a buffer of so many bytes is sent in."""
    return max(1, ceil(heaviest * nbytes / WAVE_BYTES))


def waves(
    schedule: ScheduleFunction, size: int, root: int, nbytes: int, blocks: int
) -> Waves:
    """The waves of a call.

    Parameters
    ----------
    schedule
        The algorithm.
    size, root
        The number of ranks, and the root.
    nbytes
        Bytes of the whole buffer that the schedule speaks of.
    blocks
        How many blocks of the buffer belong to somebody, as in an allgather.
    """
    if nbytes <= WAVE_BYTES or size > RANKS:
        return Waves()
    parts, heaviest = outline(schedule, size, root)
    parts = lcm(parts, blocks)
    if parts > PARTS:
        return Waves()
    return Waves(count(heaviest, nbytes), parts)
