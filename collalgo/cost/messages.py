"""The messages of all or some ranks as columns of numbers."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.cost.columns import columns, numbered_steps
from collalgo.schedule import ScheduleFunction, Steps, begin
from collalgo.schedule.transfers import Ints, Reals

Flags = NDArray[np.bool_]


class Messages(NamedTuple):
    """The transfers between different ranks, each seen from both of its ends.

    Attributes
    ----------
    step, rank, kind, peer, lane : ndarray
        The step, rank, kind (0 for a send, 1 for a receive, 2 for a receive that
        reduces), peer and lane of each transfer.
    share : ndarray
        The share of the buffer that each transfer moves.
    """

    step: Ints
    rank: Ints
    kind: Ints
    peer: Ints
    lane: Ints
    share: Reals

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.step.max(initial=-1)) + 1

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return sum(column.nbytes for column in self)

    def where(self, chosen: Flags | Ints) -> "Messages":
        """The chosen transfers."""
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        return Messages._make([column[chosen] for column in self])

    @property
    def sends(self) -> "Messages":
        """The sends."""
        return self.where(self.kind == 0)

    @property
    def reductions(self) -> "Messages":
        """The receives that reduce."""
        return self.where(self.kind == 2)

    def distinct_steps(self) -> tuple["Messages", Ints]:
        """The distinct steps, regardless of lanes, and the number of each step.

        Examples
        --------
        >>> from collalgo.algorithms.ring import allreduce
        >>> distinct, which = all_messages(allreduce, 4).distinct_steps()
        >>> distinct.steps, which.tolist()
        (2, [0, 0, 0, 1, 1, 1])
        """
        step, rank, kind, peer, _, share = self
        which = numbered_steps(step, rank, kind, peer, share, self.steps)
        is_first = np.zeros(len(which), bool)
        is_first[np.unique(which, return_index=True)[1]] = True
        kept = self.where(is_first[step])
        return kept._replace(step=which[kept.step]), which

    def reduced(self) -> Flags:
        """For each send, whether its receiver reduces the message."""
        sends, sums = self.sends, self.reductions
        span = int(max(self.rank.max(initial=0), self.peer.max(initial=0))) + 1
        lanes = int(self.lane.max(initial=0)) + 1
        sent = ((sends.step * span + sends.rank) * span + sends.peer) * lanes
        taken = ((sums.step * span + sums.peer) * span + sums.rank) * lanes
        flags: Flags = np.isin(sent + sends.lane, taken + sums.lane)
        return flags


def joined(parts: Iterable[Messages]) -> Messages:
    """The messages of several parts together."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    return Messages._make(map(np.concatenate, zip(*parts, strict=True)))


#: No messages at all.
NOTHING = Messages._make([*np.zeros((5, 0), np.int64), np.zeros(0)])


def messages_of(traces: Iterable[tuple[int, Steps]]) -> Messages:
    """The transfers of some ranks, from the steps of each.

    Examples
    --------
    >>> from collalgo.algorithms.ring import allgather
    >>> from collalgo.schedule import trace
    >>> found = messages_of((rank, trace(allgather, rank, 3)) for rank in range(3))
    >>> found.sends.peer.tolist(), found.sends.share[0].item() * 3
    ([1, 1, 2, 2, 0, 0], 1.0)
    """
    return Messages._make(columns(traces))


def all_messages(schedule: ScheduleFunction, size: int, root: int = 0) -> Messages:
    """The transfers of all ranks."""
    return messages_of(
        (rank, begin(schedule, rank, size, root)) for rank in range(size)
    )
