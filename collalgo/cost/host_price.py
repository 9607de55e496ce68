"""The alpha-beta-gamma price of a schedule on a host, from its steps and bytes."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collalgo.base.distinct import distinct
from collalgo.cost.by_size import BORDERS, BySize
from collalgo.cost.host_profile import HostProfile
from collalgo.engine.plan.chunk_pipelining import RANKS, SLICE_BYTES, TAKEN, TURN_BYTES
from collalgo.schedule import Step
from collalgo.schedule.replay import Replay
from collalgo.schedule.transfers import Reals

#: The sizes at which prices are computed; prices between them are interpolated.
GRID = np.concatenate([[0.0], 2.0 ** np.arange(0, 47)])

#: The multiples of the least number of slices that are tried.
FINER = (1, 2, 4, 8, 16, 32)

#: The relative cost of each further input of a reduction: it is read, while with the
#: first input the result is read and written, too.
FURTHER = 1 / 2

#: The number of latencies of a step that continues a stream of messages, in a further
#: slice or from the same peer: the cache line that announces a message, its data, and
#: the line that acknowledges it move from core to core one after the other. Measured
#: with broadcasts, reduces and scatters of two ranks.
HANDOVERS = 3


class HostPrice:
    """The price of a schedule on a host.

    A step first sends (one message for each peer, one copy for each chunk) and then
    receives; a message takes the latency of the host. With more ranks than cores, a
    wait costs a switch between ranks, an exchange also idle turns (so the prices of
    short calls are what 4 and 8 ranks take on 2 cores; only the first slice of a
    pipelined call has them), and all the work is spread over the cores: work
    outside the longest chain of messages runs in parallel to it (Graham's bound for
    greedy scheduling). In a pipelined call the first slice takes the longest chain, and
    each further slice the work of the busiest rank; segments of the schedule itself
    cost the same.

    Parameters
    ----------
    schedules
        The steps of all ranks.
    profile
        The costs of the host.
    """

    def __init__(self, schedules: Sequence[Sequence[Step]], profile: HostProfile):
        replay = Replay(schedules)
        share = replay.share[replay.place] / replay.grid
        posted = replay.total(replay.posted, share)
        self.size = replay.size
        crowded = self.crowded = replay.size > profile.cores
        arrives, reduces = replay.kind != 0, replay.kind == 2
        arriving = replay.total(arrives, share)
        #: The least number of slices per byte of the buffer.
        self.least_slices = _least_slices(replay, posted, arriving, crowded)
        #: The number of buffers that all ranks together reduce.
        self.reduced = float(replay.total(reduces, share).sum())
        self._far = _beyond_caches(replay, posted, share, profile)
        sending, receiving = _work(replay, posted, share, profile)
        self._set_times(replay, sending, receiving, profile)

    def _set_times(
        self, replay: Replay, sending: Reals, receiving: Reals, profile: HostProfile
    ) -> None:
        """Set the times of the first slice and of each further one, by GRID."""
        crowded = replay.size > profile.cores
        latency = profile.switch if crowded else profile.latency
        waits = replay.total(replay.kind != 0) > 0
        # Where ranks share cores, others run meanwhile; the total counts switches.
        handed = HANDOVERS * latency * waits[:, None] * (not crowded)
        streamed = handed * _is_streamed(replay)[:, None]
        self.first = replay.longest(sending, receiving + streamed, latency)
        self.further = _busiest(replay, sending + receiving + handed)
        if crowded:
            total = (sending + receiving).sum(axis=0)
            total += profile.switch * np.count_nonzero(waits)
            in_vain = profile.turns_in_vain(self.size) * _exchanging(replay)
            others = profile.cores - 1
            self.first = (total + in_vain + others * self.first) / profile.cores
            self.further = (total + others * self.further) / profile.cores

    def seconds(self, nbytes: Reals | float, slices: int | None = None) -> Reals:
        """The predicted times of buffers, in the best number of slices by default."""
        sizes = np.asarray(nbytes, np.float64)
        if slices is not None:
            return self._sliced(sizes, slices)
        least: Reals = self._finer(sizes).min(axis=0)
        return least

    @cached_property
    def slices(self) -> BySize[int]:
        """The best number of slices for buffers of all sizes."""
        sizes = BORDERS.astype(np.float64)
        best = np.array(FINER)[self._finer(sizes).argmin(axis=0)]
        return BySize.from_table((self._needed(sizes) * best).astype(np.int64))

    def _finer(self, sizes: Reals) -> Reals:
        """The times with the least number of slices, and with multiples of it."""
        finer = FINER if self.size <= RANKS else FINER[:1]
        needed = self._needed(sizes)
        return np.stack([self._sliced(sizes, needed * times) for times in finer])

    def _needed(self, sizes: Reals) -> Reals:
        """The number of slices that keeps the bytes of a step within the limit."""
        if self.size > RANKS:
            return np.ones_like(sizes)
        return np.maximum(1.0, np.ceil(self.least_slices * sizes))

    def _sliced(self, sizes: Reals, slices: Reals | int) -> Reals:
        first = np.interp(sizes / slices, GRID, self.first)
        further = np.interp(sizes / slices, GRID, self.further)
        traffic, extra, cache = self._far
        held = np.minimum(traffic, 2 * self.size) * sizes
        outside = np.maximum(1 - cache / np.maximum(held, 1.0), 0.0)
        times: Reals = first + (slices - 1) * further + extra * sizes * outside
        return times


def _work(
    replay: Replay, posted: Reals, share: Reals, profile: HostProfile
) -> tuple[Reals, Reals]:
    """The seconds of the sends and of the receives of each step, by GRID."""
    takes, reduces = replay.kind == 1, replay.kind == 2
    work = profile.copy * replay.total(takes, share)
    weight = np.where(_further_inputs(replay), FURTHER, 1.0)
    work += profile.reduce * replay.total(reduces, share * weight)
    sending = np.outer(profile.copy * posted, GRID)
    sending += profile.message * replay.total(replay.kind == 0)[:, None]
    taken = replay.total(takes | reduces)
    receiving = np.outer(work, GRID) + profile.message * taken[:, None]
    return sending, receiving


def _least_slices(
    replay: Replay, posted: Reals, arriving: Reals, crowded: bool
) -> float:
    """The least number of slices per byte, so that no step sends or takes too much.

    Where ranks share cores a step may send more, if no message is long.
    """
    step = float(posted.max(initial=0.0))
    if not crowded:
        return max(step, float(arriving.max(initial=0.0)) / TAKEN) / SLICE_BYTES
    messages = replay.share[replay.sent] / replay.grid
    longest = float(messages.max(initial=0.0))
    return max(step / TURN_BYTES, 2 * longest / SLICE_BYTES)


def _beyond_caches(
    replay: Replay, posted: Reals, share: Reals, profile: HostProfile
) -> tuple[float, float, float]:
    """The traffic of all ranks, the extra cost outside the caches, and the cache size.

    Traffic and extra cost (of the busiest rank) are per byte of the buffer.
    """
    takes, reduces = (replay.total(replay.kind == kind, share) for kind in (1, 2))
    extra = max(profile.copy_far - profile.copy, 0.0) * (posted + takes)
    extra += max(profile.reduce_far - profile.reduce, 0.0) * reduces
    ranks = np.bincount(replay.rank_of, extra, replay.size)
    longest = max(ranks.max(initial=0.0), ranks.sum() / profile.cores)
    traffic = float((posted + takes + reduces).sum())
    return traffic, float(longest), float(profile.cache)


def _further_inputs(replay: Replay) -> NDArray[np.bool_]:
    """Whether a transfer is reduced together with another one of its step."""
    reduced = np.flatnonzero(replay.kind == 2)
    pairs = np.stack([replay.step, replay.place])[:, reduced]
    _, first = np.unique(pairs, axis=1, return_index=True)
    further: NDArray[np.bool_] = replay.kind == 2
    further[reduced[first]] = False
    return further


def _is_streamed(replay: Replay) -> NDArray[np.bool_]:
    """Whether a rank that never sends receives again from an earlier peer."""
    sends = np.zeros(replay.size, bool)
    sends[replay.rank_of[replay.out]] = True
    pairs = replay.rank_of[replay.into] * replay.size + replay.rank_of[replay.out]
    _, pair = np.unique(pairs, return_inverse=True)
    earliest = np.full(len(pairs), len(replay.rank_of))
    np.minimum.at(earliest, pair, replay.into)
    streamed = np.zeros(len(replay.rank_of), bool)
    streamed[replay.into[replay.into > earliest[pair]]] = True
    return streamed & ~sends[replay.rank_of]


def _exchanging(replay: Replay) -> int:
    """The number of ranks that both send and receive."""
    sends, receives = (
        distinct(replay.rank_of[ends]) for ends in (replay.out, replay.into)
    )
    return len(np.intersect1d(sends, receives, assume_unique=True))


def _busiest(replay: Replay, work: Reals) -> Reals:
    """The work of the busiest rank over all steps, for each column."""
    ranks = np.zeros((replay.size, work.shape[1]))
    np.add.at(ranks, replay.rank_of, work)
    most: Reals = ranks.max(axis=0)
    return most
