"""The alpha-beta-gamma price of a schedule, from its own steps and bytes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.host_profile import HostProfile
from collalgo.engine.plan.chunk_pipelining import RANKS, TAKEN, TURN_BYTES, WAVE_BYTES
from collalgo.schedule import Step
from collalgo.schedule.replay import Replay
from collalgo.schedule.transfers import Reals

#: Sizes for which prices are computed; between two of them a price is a straight line.
GRID = np.concatenate([[0.0], 2.0 ** np.arange(0, 47)])

#: How many times as many waves as are needed are tried, to find the best number.
FINER = (1, 2, 4, 8, 16, 32)

#: What each further input of a reduction takes, of what the first takes: it is read,
#: where with the first the result is read and written, too.
FURTHER = 1 / 2

#: How many latencies a step takes that goes on with a stream of messages, in a further
#: wave or from the same peer: the line that tells of a message, its data, and the line
#: that tells that it was read go from core to core, and nothing else meanwhile.
#: Measured with broadcasts, reduces and scatters of two ranks.
HANDOVERS = 3


class Price:
    """What a schedule costs on a machine.

    A step first sends (one message for each peer, one copy for each chunk) and then
    receives what has come; a message takes the latency of the machine. Where there
    are more ranks than cores, a wait costs a switch between ranks, and all the work is
    spread over the cores: what a core does not do of the longest chain of messages is
    done meanwhile (Graham's bound for greedy scheduling). Of a call in waves the first
    takes the longest chain, each further one what the busiest rank has to do; segments
    of the schedule itself cost the same.

    Parameters
    ----------
    schedules
        The steps of all ranks.
    machine
        What things cost there.
    """

    def __init__(self, schedules: Sequence[Sequence[Step]], machine: HostProfile):
        replay = Replay(schedules)
        share = replay.share[replay.place] / replay.grid
        posted = replay.total(replay.posted, share)
        self.size = replay.size
        crowded = replay.size > machine.cores
        takes, reduces = replay.kind == 1, replay.kind == 2
        arrives = takes | reduces
        arriving = replay.total(arrives, share)
        #: How many waves there must be for each byte of the buffer.
        self.least_waves = _least_waves(replay, posted, arriving, crowded)
        #: How many buffers all ranks together reduce.
        self.reduced = float(replay.total(reduces, share).sum())
        taken = replay.total(arrives)
        work = machine.copy * replay.total(takes, share)
        weight = np.where(_further_inputs(replay), FURTHER, 1.0)
        work += machine.reduce * replay.total(reduces, share * weight)
        sending = np.outer(machine.copy * posted, GRID)
        sending += machine.message * replay.total(replay.kind == 0)[:, None]
        receiving = np.outer(work, GRID) + machine.message * taken[:, None]
        self._far = _beyond_caches(replay, posted, share, machine)
        latency = machine.switch if crowded else machine.latency
        # Where ranks share cores others run meanwhile: see the switches of the total.
        handed = HANDOVERS * latency * (taken > 0)[:, None] * (not crowded)
        streamed = handed * _is_streamed(replay)[:, None]
        #: The time of the first wave and of each further one, for the sizes of GRID.
        self.first = replay.longest(sending, receiving + streamed, latency)
        self.further = _busiest(replay, sending + receiving + handed)
        if crowded:
            total = (sending + receiving).sum(axis=0)
            total += machine.switch * np.count_nonzero(taken)
            others = machine.cores - 1
            self.first = (total + others * self.first) / machine.cores
            self.further = (total + others * self.further) / machine.cores

    def seconds(self, nbytes: Reals | float, waves: int | None = None) -> Reals:
        """The predicted times of buffers, in the best number of waves unless told."""
        sizes = np.asarray(nbytes, np.float64)
        if waves is not None:
            return self._in_waves(sizes, waves)
        least: Reals = self._finer(sizes).min(axis=0)
        return least

    def waves(self, nbytes: float) -> int:
        """In how many waves a buffer is best sent."""
        best = int(self._finer(np.asarray(nbytes)).argmin())
        return int(self._needed(np.asarray(nbytes))) * FINER[best]

    def _finer(self, sizes: Reals) -> Reals:
        """The times in as many waves as are needed, and in finer ones."""
        finer = FINER if self.size <= RANKS else FINER[:1]
        needed = self._needed(sizes)
        return np.stack([self._in_waves(sizes, needed * times) for times in finer])

    def _needed(self, sizes: Reals) -> Reals:
        """How many waves keep what is sent at once within its limit."""
        if self.size > RANKS:
            return np.ones_like(sizes)
        return np.maximum(1.0, np.ceil(self.least_waves * sizes))

    def _in_waves(self, sizes: Reals, waves: Reals | int) -> Reals:
        first = np.interp(sizes / waves, GRID, self.first)
        further = np.interp(sizes / waves, GRID, self.further)
        traffic, extra, cache = self._far
        held = np.minimum(traffic, 2 * self.size) * sizes
        outside = np.maximum(1 - cache / np.maximum(held, 1.0), 0.0)
        times: Reals = first + (waves - 1) * further + extra * sizes * outside
        return times


def _least_waves(
    replay: Replay, posted: Reals, arriving: Reals, crowded: bool
) -> float:
    """Waves for each byte, so many that no rank sends or takes too much in a step.

    Where ranks share cores a step may send more, if no message is long.
    """
    step = float(posted.max(initial=0.0))
    if not crowded:
        return max(step, float(arriving.max(initial=0.0)) / TAKEN) / WAVE_BYTES
    messages = replay.share[replay.sent] / replay.grid
    longest = float(messages.max(initial=0.0))
    return max(step / TURN_BYTES, 2 * longest / WAVE_BYTES)


def _beyond_caches(
    replay: Replay, posted: Reals, share: Reals, machine: HostProfile
) -> tuple[float, float, float]:
    """Bytes that all ranks move, what those of the busiest cost beyond the caches.

    Both for each byte of the buffer; and the bytes that the caches hold.
    """
    takes, reduces = (replay.total(replay.kind == kind, share) for kind in (1, 2))
    extra = max(machine.copy_far - machine.copy, 0.0) * (posted + takes)
    extra += max(machine.reduce_far - machine.reduce, 0.0) * reduces
    ranks = np.bincount(replay.rank_of, extra, replay.size)
    longest = max(ranks.max(initial=0.0), ranks.sum() / machine.cores)
    traffic = float((posted + takes + reduces).sum())
    return traffic, float(longest), float(machine.cache)


def _further_inputs(replay: Replay) -> NDArray[np.bool_]:
    """Whether a transfer is reduced at once with another of its step."""
    reduced = np.flatnonzero(replay.kind == 2)
    pairs = np.stack([replay.step, replay.place])[:, reduced]
    _, first = np.unique(pairs, axis=1, return_index=True)
    further: NDArray[np.bool_] = replay.kind == 2
    further[reduced[first]] = False
    return further


def _is_streamed(replay: Replay) -> NDArray[np.bool_]:
    """Whether a rank that never sends hears in a step from whom it has heard before."""
    sends = np.zeros(replay.size, bool)
    sends[replay.rank_of[replay.out]] = True
    pairs = replay.rank_of[replay.into] * replay.size + replay.rank_of[replay.out]
    _, pair = np.unique(pairs, return_inverse=True)
    earliest = np.full(len(pairs), len(replay.rank_of))
    np.minimum.at(earliest, pair, replay.into)
    streamed = np.zeros(len(replay.rank_of), bool)
    streamed[replay.into[replay.into > earliest[pair]]] = True
    return streamed & ~sends[replay.rank_of]


def _busiest(replay: Replay, work: Reals) -> Reals:
    """The sum over the steps of the rank that has most to do, for each column."""
    ranks = np.zeros((replay.size, work.shape[1]))
    np.add.at(ranks, replay.rank_of, work)
    most: Reals = ranks.max(axis=0)
    return most
