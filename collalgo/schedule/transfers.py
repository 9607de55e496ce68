"""The schedules of all ranks as one table of numbers."""

from collections.abc import Sequence
from functools import cached_property, reduce
from itertools import chain
from math import lcm
from operator import index

import numpy as np
from numpy.typing import NDArray

from collalgo.errors import ScheduleError
from collalgo.schedule.chunk import Chunks, in_words, merge
from collalgo.schedule.steps import Kind, Step

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]


class TransferTable:
    """The transfers of all ranks, column by column.

    Steps, transfers and places are numbered across all ranks; a place is a set of
    chunks.

    Attributes
    ----------
    first_step : ndarray
        The first step of each rank, and the number of all steps.
    rank_of : ndarray
        The rank of each step.
    step, peer, lane, kind, place : ndarray
        The columns of the table; the kind is 0 for a send, 1 for a receive and 2 for a
        receive that reduces.
    places : list of Chunks
        Each place in lowest terms.

    Raises
    ------
    ScheduleError
        For a peer that does not exist, or chunks of several buffers at once.
    """

    def __init__(self, schedules: Sequence[Sequence[Step]]):
        self.schedules = schedules
        self.size = len(schedules)
        self.first_step = np.cumsum([0, *map(len, schedules)])
        self.rank_of = np.repeat(np.arange(self.size), np.diff(self.first_step))
        self.places: list[Chunks] = []
        self._place_of: dict[Chunks, int] = {}
        self._tabulate()
        self._check_peers()

    def _tabulate(self) -> None:
        """Write all transfers into columns."""
        steps = list(chain.from_iterable(self.schedules))
        transfers = list(chain.from_iterable(steps))
        self.transfers = transfers
        self.step = np.repeat(np.arange(len(steps)), [len(step) for step in steps])
        number = {Kind.SEND: 0, Kind.RECV: 1, Kind.RECV_REDUCE: 2}
        seen: dict[int, int] = {}  # by identity: large tuples are slow to hash
        columns = np.empty((4, len(transfers)), np.int64)
        columns[0] = self._peers()
        columns[1] = [t[3] for t in transfers]
        columns[2] = [number[t[0]] for t in transfers]
        columns[3] = [
            seen[i]
            if (i := id(t[2])) in seen
            else seen.setdefault(i, self._place(t[2]))
            for t in transfers
        ]
        self.peer, self.lane, self.kind, self.place = columns

    def _peers(self) -> list[int]:
        """The peer of each transfer; -1 for one that can be no rank."""
        peers = [transfer[1] for transfer in self.transfers]
        if {*map(type, peers)} <= {int} and max(map(abs, peers), default=0) < 1 << 31:
            return peers
        return [_rank(peer, self.size) for peer in peers]

    def _place(self, chunks: Chunks) -> int:
        """The number of a place."""
        chunks = merge(chunks) if chunks else ()
        if len({chunk.spare for chunk in chunks}) > 1:
            raise ScheduleError(
                f"{in_words(chunks)} lie in several buffers; one "
                "message comes from one buffer and goes into one"
            )
        number = self._place_of.setdefault(chunks, len(self.places))
        if number == len(self.places):
            self.places.append(chunks)
        return number

    def where(self, step: int) -> tuple[int, int]:
        """The rank of a step, and its index among the steps of the rank."""
        rank = int(self.rank_of[step])
        return rank, int(step - self.first_step[rank])

    def _check_peers(self) -> None:
        wrong = np.flatnonzero((self.peer < 0) | (self.peer >= self.size))
        if len(wrong):
            rank, index = self.where(self.step[wrong[0]])
            raise ScheduleError(
                f"step {index} of rank {rank}: {self.transfers[wrong[0]]!r}: the peer "
                f"must be one of the {self.size} ranks",
                rank=rank,
            )

    def by_step(self, steps: Ints) -> tuple[Ints, Ints]:
        """The items of each step: the bounds of each step in the array that follows."""
        counts = np.bincount(steps, minlength=len(self.rank_of))
        return np.cumsum([0, *counts]), np.argsort(steps, kind="stable")

    @cached_property
    def grid(self) -> int:
        """The number of equal parts of the buffer that every chunk is a multiple of."""
        return reduce(lcm, {c.parts for place in self.places for c in place}, 1)

    @cached_property
    def share(self) -> Reals:
        """The part of the buffer that each place covers, in units of the grid."""
        return np.array(
            [
                sum((c.stop - c.start) * (self.grid // c.parts) for c in place)
                for place in self.places
            ],
            np.float64,
        )

    @cached_property
    def remote(self) -> NDArray[np.bool_]:
        """Whether each transfer is with another rank, not between own buffers."""
        remote: NDArray[np.bool_] = self.rank_of[self.step] != self.peer
        return remote

    @cached_property
    def posted(self) -> NDArray[np.bool_]:
        """The sends that are copied: one for equal chunks to several peers."""
        sends = np.flatnonzero(self.kind == 0)
        keys = np.stack([self.step, self.lane, self.place])[:, sends]
        _, distinct = np.unique(keys, axis=1, return_index=True)
        chosen = np.zeros(len(self.kind), bool)
        chosen[sends[distinct]] = True
        return chosen

    def total(self, chosen: NDArray[np.bool_], weights: Reals | None = None) -> Reals:
        """For each step, the sum of the weights of its chosen transfers."""
        of_chosen = None if weights is None else weights[chosen]
        return np.bincount(
            self.step[chosen], of_chosen, minlength=len(self.rank_of)
        ).astype(np.float64)


def chunk_bounds(places: Sequence[Chunks], grid: int) -> set[int]:
    """The bounds of the chunks of places, on a grid of equal parts."""
    return {
        bound * (grid // chunk.parts)
        for place in places
        for chunk in place
        for bound in (chunk.start, chunk.stop)
    }


def _rank(peer: object, size: int) -> int:
    """A peer as a rank; -1 for another number or type."""
    try:
        rank = index(peer)  # type: ignore[arg-type]
    except TypeError:
        return -1
    return rank if 0 <= rank < size else -1
