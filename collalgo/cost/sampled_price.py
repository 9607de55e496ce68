"""The price of a schedule for many ranks of a host, from the steps of a few of them.

With many more ranks than cores the time is the work of all ranks, spread over the
cores. A few ranks are enough to estimate it, where the steps of all, which are hundreds
of thousands for 128 ranks, would take many seconds.
"""

from collections.abc import Callable, Sequence

import numpy as np

from collalgo.cost.host_price import GRID, HostPrice
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule import Kind, Step
from collalgo.schedule.chunk import Chunks
from collalgo.schedule.transfers import Reals

#: The most ranks whose steps are all priced.
ALL_RANKS = 24


#: The numbers of ranks whose longest chains of messages are extrapolated to more.
FEW_RANKS = 8, 16

#: A chain grows with the ranks if twice as many make it longer than this, else with
#: their logarithm.
LINEAR = 1.6


def sampled_ranks(size: int) -> list[int]:
    """The ranks that represent all: the root, its neighbours, and some others."""
    return sorted({0, 1, 2, 3, size // 3, size // 2, 2 * size // 3, size - 2, size - 1})


class SampledPrice:
    """The price of a schedule for more than :data:`ALL_RANKS` ranks.

    Parameters
    ----------
    steps
        Gives the steps of a rank.
    size
        The number of ranks.
    profile
        The costs of the host.
    chains
        For each of :data:`FEW_RANKS` the seconds of the longest chain of messages, and
        those for each byte.

    Attributes
    ----------
    reduced : float
        The number of buffers that all ranks together reduce.
    crowded : bool
        Whether ranks share cores.
    """

    def __init__(
        self,
        steps: Callable[[int], Sequence[Step]],
        size: int,
        profile: HostProfile,
        chains: Sequence[Reals],
    ):
        root, *others = (
            _work(steps(rank), profile, size) for rank in sampled_ranks(size)
        )
        total = root + (size - 1) * np.mean(others, axis=0)
        busiest = np.max([root, *others], axis=0)[:2]
        longest = np.maximum(busiest, _extrapolated(chains, size))
        # As of all ranks: work outside the longest chain runs in parallel to it.
        self.size, self.reduced = size, float(total[2])
        self.crowded = size > profile.cores
        self._times = (total[:2] + (profile.cores - 1) * longest) / profile.cores

    def seconds(self, nbytes: Reals | float, _slices: int | None = None) -> Reals:
        """The predicted times of buffers."""
        start, each = self._times
        times: Reals = start + each * np.asarray(nbytes, np.float64)
        return times


def chain_of(price: HostPrice) -> Reals:
    """The seconds of the longest chain of a schedule, and those for each byte."""
    start, last = price.first[0], price.first[-1]
    return np.array([start, (last - start) / GRID[-1]])


def _extrapolated(chains: Sequence[Reals], size: int) -> Reals:
    """The longest chain of ``size`` ranks, from those of :data:`FEW_RANKS`."""
    few, more = chains
    further = size / FEW_RANKS[1]
    found: Reals = np.where(
        more > LINEAR * few, more * further, more + (more - few) * np.log2(further)
    )
    return found


def _work(steps: Sequence[Step], profile: HostProfile, size: int) -> Reals:
    """The seconds of a rank, those for each byte of the buffer, and its reductions."""
    start = each = reduced = 0.0
    kinds = {transfer.kind is Kind.SEND for step in steps for transfer in step}
    start += profile.turns_in_vain(size) if len(kinds) == 2 else 0.0
    for step in steps:
        start += profile.message * len(step)
        received = [transfer for transfer in step if transfer.kind is not Kind.SEND]
        start += profile.switch if received else 0.0
        posts = {transfer.chunks for transfer in step if transfer.kind is Kind.SEND}
        each += profile.copy * sum(map(_share, posts))
        for transfer in received:
            share = _share(transfer.chunks)
            reduces = transfer.kind is Kind.RECV_REDUCE
            each += share * (profile.reduce if reduces else profile.copy)
            reduced += share * reduces
    return np.array([start, each, reduced])


def _share(chunks: Chunks) -> float:
    """The fraction of the buffer in chunks."""
    if len(chunks) == 1:  # of most transfers, of which there may be many thousands
        return (chunks[0].stop - chunks[0].start) / chunks[0].parts
    return sum((chunk.stop - chunk.start) / chunk.parts for chunk in chunks)
