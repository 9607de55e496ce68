"""Find the symmetry of a schedule from the transfers of a few ranks."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from math import prod

import numpy as np

from collalgo.cost.messages import (
    NOTHING,
    Flags,
    Messages,
    joined,
    messages_of,
)
from collalgo.cost.symmetry import Folded, Symmetry
from collalgo.schedule import ScheduleFunction, begin
from collalgo.schedule.tracing import MOST_STEPS

#: The number of steps of a partial trace.
FEW = 32

#: The bytes of a schedule without messages, about.
OVERHEAD = 1 << 12

#: Shares of the buffer that differ by less are equal.
ROUNDED = 1e-12


def fold(
    schedule: ScheduleFunction,
    size: int,
    grids: Sequence[tuple[int, ...]] = (),
    root: int = 0,
) -> Folded:
    """Find the largest symmetry of a schedule among some likely ones.

    A symmetry is accepted if a few ranks have the transfers that their representatives
    predict. The tests compare all ranks, of all algorithms, for many sizes.

    Parameters
    ----------
    schedule
        A function of a group.
    size
        The number of ranks.
    grids
        Tuples of numbers whose product is the size: the dimensions of a grid, or the
        numbers of ranks per host and of hosts.
    root
        The rank of the root of a rooted collective.
    """
    return Traces(schedule, size, grids, root).folded


class Traces:
    """The messages of single ranks of a schedule, each traced once.

    Lanes are renumbered in order between any two ranks in a step. Both ends then have
    the same numbers, and ranks that use other lanes alike compare equal.

    The parameters are those of :func:`fold`.
    """

    def __init__(
        self,
        schedule: ScheduleFunction,
        size: int,
        grids: Sequence[tuple[int, ...]] = (),
        root: int = 0,
    ):
        self.schedule, self.size, self.grids, self.root = schedule, size, grids, root
        self._clear()

    @cached_property
    def symmetry(self) -> Symmetry:
        """The largest likely symmetry that holds, or the trivial one."""
        for symmetry in _likely(self.size, self.grids):
            if self._holds(symmetry):
                return symmetry
        return Symmetry((self.size,), (False,))

    @cached_property
    def folded(self) -> Folded:
        """The schedule as the transfers of as few ranks as possible."""
        found = Folded(self.symmetry, self.of(self.symmetry.representatives))
        self._clear()  # which would double the memory
        return found

    def _clear(self) -> None:
        self._whole, self._begun = TracedRanks(self.size), TracedRanks(self.size)
        self._partial_traces: dict[tuple[tuple[int, ...], bool], Messages] = {}

    @property
    def nbytes(self) -> int:
        """About the bytes of the messages that are known so far."""
        known = [*self._partial_traces.values()]  # as other threads add to them
        found = sum(one.nbytes for one in known)
        if "folded" in vars(self):
            found += self.folded.messages.nbytes
        return OVERHEAD + found + self._whole.nbytes + self._begun.nbytes

    @cached_property
    def length(self) -> int:
        """The number of steps of rank 0."""
        steps = begin(self.schedule, 0, self.size, self.root)
        return sum(1 for _ in islice(steps, MOST_STEPS))

    @cached_property
    def beginning(self) -> Messages:
        """The partial_trace of the first steps of rank 0."""
        return self.partial_trace(range(1), few=True)

    def partial_trace(self, ranks: Sequence[int], few: bool = False) -> Messages:
        """The messages that some ranks send, reduce and receive, in all or few steps.

        The price of a partial trace is a lower bound of the price of the schedule.
        """
        key = tuple(ranks), few
        if key not in self._partial_traces:
            self._partial_traces[key] = self._trace_partially(ranks, few)
        return self._partial_traces[key]

    def _trace_partially(self, ranks: Sequence[int], few: bool) -> Messages:
        theirs = self.of(ranks, few)
        within = _members(ranks, self.size)[theirs.peer]
        taken = theirs.where((theirs.kind != 0) & ~within)
        sent = taken._replace(
            rank=taken.peer, peer=taken.rank, kind=np.zeros_like(taken.kind)
        )
        return joined([theirs, sent])

    def of(self, ranks: Sequence[int], few: bool = False) -> Messages:
        """The messages of some ranks, in all steps or the first few."""
        if few and self._whole.ranks.issuperset(ranks):
            found = self._whole.of(ranks)
            return found.where(found.step < FEW)
        known = self._begun if few else self._whole
        if missing := [rank for rank in ranks if rank not in known.ranks]:
            known.add(missing, self._traced(missing, FEW if few else None))
        return known.of(ranks)

    def _traced(self, ranks: Sequence[int], steps: int | None) -> Messages:
        begun = ((r, begin(self.schedule, r, self.size, self.root)) for r in ranks)
        return renumbered(messages_of((r, islice(its, steps)) for r, its in begun))

    def _holds(self, symmetry: Symmetry) -> bool:
        """Whether a few ranks have the transfers that their representatives predict.

        All but the last of these are compared in the first steps only.
        """
        last = self.size - 1
        some = {
            2,
            self.size // 2,
            *(k * each for each, *_ in self.grids for k in (1, 2)),
        }
        witnesses = sorted(some & {*range(2, last)})
        return (
            self._agree(symmetry, [1][: last > 1], few=True)
            and self._agree(symmetry, witnesses, few=True)
            and self._agree(symmetry, [last])
            and (not self.root or self._agree(symmetry, self._like_root(symmetry)))
        )

    def _like_root(self, symmetry: Symmetry) -> list[int]:
        """The root, and the first rank that would be like it."""
        first = symmetry.representatives_of(np.arange(self.size))
        alike = np.flatnonzero(first == first[self.root]).tolist()
        return [self.root, *[rank for rank in alike if rank != self.root][:1]]

    def _agree(
        self, symmetry: Symmetry, ranks: Sequence[int], few: bool = False
    ) -> bool:
        """Whether some ranks have the transfers that their representatives predict."""
        first = symmetry.representatives_of(np.array(ranks, np.int64)).tolist()
        doubtful = [rank for rank, one in zip(ranks, first, strict=True) if rank != one]
        if not doubtful:
            return True
        found = self.of(doubtful, few)
        expected = symmetry.spread(self.of(sorted({*first}), few), doubtful)
        if len(found.step) != len(expected.step):
            return False
        return _alike(found, expected) or _alike(_sorted(found), _sorted(expected))


class TracedRanks:
    """The messages of the ranks that have been traced."""

    def __init__(self, size: int) -> None:
        self.ranks: set[int] = set()
        self._messages = NOTHING
        self._size = size

    @property
    def nbytes(self) -> int:
        """The bytes of the messages."""
        return self._messages.nbytes

    def add(self, ranks: Iterable[int], messages: Messages) -> None:
        """Add the messages of further ranks."""
        self.ranks.update(ranks)
        self._messages = joined([self._messages, messages])

    def of(self, ranks: Sequence[int]) -> Messages:
        """The messages of some of the traced ranks."""
        if len(ranks) == len(self.ranks):
            return self._messages
        wanted = _members(ranks, self._size)
        return self._messages.where(wanted[self._messages.rank])


def _members(ranks: Sequence[int], size: int) -> Flags:
    """For each rank whether it is one of these."""
    flags = np.zeros(size, bool)
    flags[ranks] = True
    return flags


def renumbered(messages: Messages) -> Messages:
    """The messages with the lanes of a rank to a peer in a step numbered from 0."""
    if not messages.lane.any():
        return messages
    step, rank, kind, peer, lane, _ = messages
    order = np.lexsort((lane, peer, kind == 0, rank, step))
    step, rank, sends, peer, lane = (
        column[order] for column in (step, rank, kind == 0, peer, lane)
    )
    other = np.ones(len(order), bool)
    other[1:] = np.any([each[1:] != each[:-1] for each in (step, rank, sends, peer)], 0)
    lanes = np.cumsum(other | (np.diff(lane, prepend=-1) != 0))
    number = np.empty_like(lanes)
    number[order] = lanes - np.maximum.accumulate(np.where(other, lanes, 0))
    return messages._replace(lane=number)


def _likely(size: int, grids: Sequence[Sequence[int]]) -> Iterator[Symmetry]:
    """Likely symmetries, those with the fewest representatives first."""
    yield Symmetry.all(size)
    if _is_power_of_two(size):
        yield Symmetry.all(*_twos(size))
    for grid in grids:
        yield Symmetry.all(*grid)
    yield from _by_twos(size)
    for each, *others in grids:
        count = prod(others)
        yield from _by_twos(each, *others)
        yield Symmetry((each, *others), (False, *[True] * len(others)))
        if _is_power_of_two(count):
            yield Symmetry((each, *_twos(count)), (False, *[True] * len(_twos(count))))
        if len(others) > 1:
            still = (False,) * len(others)
            yield Symmetry((each, *others), (*still, True))


def _by_twos(each: int, *others: int) -> Iterator[Symmetry]:
    """The symmetry of every other rank, or of every other line of a grid."""
    if each % 2 == 0 and each > 2:
        yield Symmetry((2, each // 2, *others), (False, *[True] * (1 + len(others))))


def _is_power_of_two(number: int) -> bool:
    return number > 2 and number & (number - 1) == 0


def _twos(number: int) -> list[int]:
    """The binary digits that make up a power of two."""
    return [2] * (number.bit_length() - 1)


def _alike(some: Messages, others: Messages) -> bool:
    """Whether messages are the same in the same order, up to rounding of shares."""
    *whole, (share, other) = zip(some, others, strict=True)
    if not all(np.array_equal(*pair) for pair in whole):
        return False
    return not len(share) or float(np.abs(share - other).max()) < ROUNDED


def _sorted(messages: Messages) -> Messages:
    """Sort messages canonically, regardless of the order within a step."""
    step, rank, kind, peer, lane, share = messages
    return messages.where(np.lexsort((share, lane, peer, kind, step, rank)))
