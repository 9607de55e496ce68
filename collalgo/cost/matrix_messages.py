"""The messages of a schedule whose blocks have different sizes."""

from collections.abc import Iterator

import numpy as np

from collalgo.cost.messages import Messages
from collalgo.schedule import Chunks, Kind, ScheduleFunction, as_step, begin
from collalgo.schedule.transfers import Reals

#: The kinds of transfers, as of :class:`Messages`.
KINDS = {Kind.SEND: 0, Kind.RECV: 1, Kind.RECV_REDUCE: 2}


def matrix_messages(schedule: ScheduleFunction, size: int, part: Reals) -> Messages:
    """The messages of all ranks; those without bytes are not sent.

    Parameters
    ----------
    schedule
        A schedule of an alltoall.
    size
        The number of ranks.
    part
        The part of the buffer that each block is.
    """
    found = [*_transfers(schedule, size)]
    columns = np.array([row for row, _ in found], np.int64).reshape(-1, 5).T
    share = _shares([chunks for _, chunks in found], part)
    return Messages._make([*columns, share]).where(share > 0)


def _transfers(
    schedule: ScheduleFunction, size: int
) -> Iterator[tuple[tuple[int, ...], Chunks]]:
    """The step, rank, kind, peer, lane and chunks of each transfer to another rank."""
    for rank in range(size):
        for step, yielded in enumerate(begin(schedule, rank, size)):
            for kind, peer, chunks, lane in as_step(yielded):
                if peer != rank:
                    yield (step, rank, KINDS[kind], peer, lane), chunks


def _shares(messages: list[Chunks], part: Reals) -> Reals:
    """The part of the buffer that the chunks of each message make up."""
    borders = np.concatenate([[0.0], np.cumsum(part)])
    chunks = [
        (number, chunk.start / chunk.parts, chunk.stop / chunk.parts)
        for number, some in enumerate(messages)
        for chunk in some
    ]
    number, start, stop = np.array(chunks, float).reshape(-1, 3).T
    places = np.arange(len(borders)) / len(part)
    widths = np.interp(stop, places, borders) - np.interp(start, places, borders)
    found = np.bincount(number.astype(np.int64), widths, len(messages))
    return np.where(found > ROUNDING, found, 0.0)


#: A smaller part of the buffer is a difference by rounding.
ROUNDING = 1e-13
