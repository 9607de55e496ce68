"""What ranks send each other, as columns of numbers: of all ranks, or of some."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule import Chunks, Kind, ScheduleFunction, Step, trace
from collalgo.transfers import Ints, Reals

Flags = NDArray[np.bool_]

#: The kinds of transfers in the order of their numbers.
KINDS = (Kind.SEND, Kind.RECV, Kind.RECV_REDUCE)


class Messages(NamedTuple):
    """The transfers between different ranks, each seen from both of its ends.

    Attributes
    ----------
    step, rank, kind, peer, lane : ndarray
        When whose transfer it is, what it does (0 for a send, 1 for a receive, 2 for
        one that reduces), and with whom.
    share : ndarray
        How much of the buffer it moves.
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

    def where(self, chosen: Flags | Ints) -> "Messages":
        """Some of them."""
        return Messages._make(column[chosen] for column in self)

    @property
    def sends(self) -> "Messages":
        """The sends alone."""
        return self.where(self.kind == 0)

    @property
    def reductions(self) -> "Messages":
        """The receives that reduce, alone."""
        return self.where(self.kind == 2)

    def reduced(self) -> Flags:
        """For each send, whether its receiver reduces what comes."""
        sends, sums = self.sends, self.reductions
        span = int(max(self.rank.max(initial=0), self.peer.max(initial=0))) + 1
        lanes = int(self.lane.max(initial=0)) + 1
        sent = ((sends.step * span + sends.rank) * span + sends.peer) * lanes
        taken = ((sums.step * span + sums.peer) * span + sums.rank) * lanes
        flags: Flags = np.isin(sent + sends.lane, taken + sums.lane)
        return flags


def joined(parts: Iterable[Messages]) -> Messages:
    """The messages of several as those of all."""
    return Messages._make(map(np.concatenate, zip(*parts, strict=True)))


def messages_of(schedules: Iterable[tuple[int, Iterable[Step]]]) -> Messages:
    """The transfers of some ranks, each with its steps.

    Examples
    --------
    >>> from collalgo.algorithms.ring import allgather
    >>> found = messages_of((r, trace(allgather, r, 3)) for r in range(3))
    >>> found.sends.peer.tolist(), found.sends.share[0].item() * 3
    ([1, 1, 2, 2, 0, 0], 1.0)
    """
    shares: dict[int, float] = {}  # by identity: large tuples are slow to hash
    kept: list[Chunks] = []  # so that no identity is used again
    numbers: list[int] = []
    moved: list[float] = []
    send, recv, _ = KINDS  # enumerations are slow to hash as well
    for rank, steps in schedules:
        for index, step in enumerate(steps):
            for kind, peer, chunks, lane in step:
                if peer == rank:
                    continue
                share = shares.get(id(chunks))
                if share is None:
                    kept.append(chunks)
                    share = sum([(c.stop - c.start) / c.parts for c in chunks], 0.0)
                    shares[id(chunks)] = share
                number = 0 if kind is send else 1 if kind is recv else 2
                numbers += (index, rank, number, peer, lane)
                moved.append(share)
    whole = np.array(numbers, np.int64).reshape(len(moved), 5)
    return Messages._make([*np.ascontiguousarray(whole.T), np.array(moved)])


def all_messages(schedule: ScheduleFunction, size: int, root: int = 0) -> Messages:
    """The transfers of all ranks."""
    return messages_of((r, trace(schedule, r, size, root)) for r in range(size))
