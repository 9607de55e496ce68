"""Ranks that do the same relative to themselves, so that one stands for many.

A rank is a number of several digits, as the place in a host and the host. Of most
schedules some digits turn: all ranks that differ in them only do the same, when the
digits of their peers are turned as far. Of a ring one rank tells what all do, and so of
halving-doubling with digits of two values, and of a torus with those of its grid.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from math import prod
from typing import NamedTuple

import numpy as np

from collalgo.cost.messages import Messages, messages_of
from collalgo.schedule import ScheduleFunction, begin
from collalgo.transfers import Ints


class Symmetry(NamedTuple):
    """The digits of a rank, the least first, and which of them turn."""

    radices: tuple[int, ...]
    turns: tuple[bool, ...]

    @classmethod
    def all(cls, *radices: int) -> "Symmetry":
        """All digits turn."""
        return cls(radices, (True,) * len(radices))

    @property
    def size(self) -> int:
        """The number of ranks."""
        return prod(self.radices)

    @property
    def _digits(self) -> list[tuple[int, int, bool]]:
        """The digits: how many values, what one counts, and whether it turns."""
        strides = accumulate(self.radices, int.__mul__, initial=1)
        return list(zip(self.radices, strides, self.turns, strict=False))

    @property
    def representatives(self) -> list[int]:
        """The ranks that stand for all others: those whose turning digits are 0."""
        ranks = [0]
        for radix, stride, turns in self._digits:
            if not turns:
                ranks = [r + i * stride for i in range(radix) for r in ranks]
        return sorted(ranks)

    def turned(self, ranks: Ints, by: Ints) -> Ints:
        """The ranks with their digits turned as far as those of others."""
        result = np.zeros(np.broadcast(ranks, by).shape, np.int64)
        for radix, stride, turns in self._digits:
            digit, further = ranks // stride % radix, by // stride % radix
            result += (digit + turns * further) % radix * stride
        return result

    def standing_for(self, ranks: Ints) -> Ints:
        """The representatives of ranks."""
        result = np.zeros_like(ranks)
        for radix, stride, turns in self._digits:
            result += (not turns) * (ranks // stride % radix) * stride
        return result

    def period(self, each: int) -> int:
        """The ranks, a multiple of ``each``, after which all begins anew.

        Turning takes every host of ``each`` ranks to any other one that is a multiple
        of the period away. It is the size if nothing less will do.
        """
        still = [radix * stride for radix, stride, turns in self._digits if not turns]
        period = max([each, *still])
        for radix, stride, _ in self._digits:
            if stride < period < stride * radix and (
                period % stride or stride * radix % period
            ):
                return self.size
        return period if period % each == 0 else self.size

    def spread(self, messages: Messages, onto: Sequence[int]) -> Messages:
        """What some ranks do, from what the representatives do."""
        ranks = np.array(onto)
        first = self.standing_for(ranks)
        parts = []
        for one in np.unique(first):
            mine = messages.where(messages.rank == one)
            likes = ranks[first == one]
            peers = self.turned(mine.peer[None, :], likes[:, None])
            step, kind, lane, share = (
                np.tile(column, len(likes))
                for column in (mine.step, mine.kind, mine.lane, mine.share)
            )
            rank = np.repeat(likes, len(mine.rank))
            parts.append((step, rank, kind, peers.ravel(), lane, share))
        return Messages._make(map(np.concatenate, zip(*parts, strict=True)))


class Folded(NamedTuple):
    """A schedule by what its representatives do."""

    symmetry: Symmetry
    messages: Messages

    def of(self, ranks: Sequence[int]) -> Messages:
        """What some ranks do."""
        if not any(self.symmetry.turns) and len(ranks) == self.symmetry.size:
            return self.messages
        return self.symmetry.spread(self.messages, ranks)


#: Of all witnesses but the last only so many steps are compared.
COMPARED = 64


def fold(
    schedule: ScheduleFunction,
    size: int,
    grids: tuple[tuple[int, ...], ...] = (),
    root: int = 0,
) -> Folded:
    """Find the largest symmetry of a schedule among some that are likely.

    A symmetry counts if a handful of ranks do what their representatives say. The
    tests compare all ranks, of all algorithms, for many sizes.

    Parameters
    ----------
    schedule
        A function of a group.
    size
        The number of ranks.
    grids
        Numbers whose product is the size, as the dimensions of a grid, or the ranks of
        a host and the hosts.
    root
        The root, where there is one.
    """
    traces = Traces(schedule, size, root)
    for symmetry in _likely(size, grids):
        if traces.follow(symmetry, grids):
            break
    else:
        symmetry = Symmetry((size,), (False,))
    first = [traces.of(rank) for rank in symmetry.representatives]
    return Folded(
        symmetry, Messages._make(map(np.concatenate, zip(*first, strict=True)))
    )


class Traces:
    """The messages of single ranks of a schedule, each traced once."""

    def __init__(self, schedule: ScheduleFunction, size: int, root: int):
        self.schedule, self.size, self.root = schedule, size, root
        self._whole: dict[int, Messages] = {}
        self._begun: dict[int, Messages] = {}

    def of(self, rank: int) -> Messages:
        """All messages of a rank."""
        if rank not in self._whole:
            self._whole[rank] = self._trace(rank, None)
        return self._whole[rank]

    def _trace(self, rank: int, steps: int | None) -> Messages:
        whole = begin(self.schedule, rank, self.size, self.root)
        return messages_of([(rank, list(islice(whole, steps)))])

    def _beginning(self, rank: int) -> Messages:
        """The messages of the first steps of a rank."""
        if rank in self._whole:
            mine = self._whole[rank]
            return mine.where(mine.step < COMPARED)
        if rank not in self._begun:
            self._begun[rank] = self._trace(rank, COMPARED)
        return self._begun[rank]

    def follow(self, symmetry: Symmetry, grids: Sequence[Sequence[int]]) -> bool:
        """Whether a handful of ranks do what their representatives say."""
        size = self.size
        some = {1, 2, size // 2, *(k * each for each, *_ in grids for k in (1, 2))}
        begun = sorted(some & {*range(1, size - 1)})
        return all(
            self._agree(symmetry, rank, self._beginning) for rank in begun
        ) and self._agree(symmetry, size - 1, self.of)

    @staticmethod
    def _agree(
        symmetry: Symmetry, rank: int, messages: Callable[[int], Messages]
    ) -> bool:
        """Whether a rank does what its representative says."""
        first = int(symmetry.standing_for(np.array(rank)))
        if first == rank:
            return True
        mine, theirs = messages(rank), messages(first)
        if len(mine.step) != len(theirs.step):
            return False
        expected = _sorted(symmetry.spread(theirs, [rank]))
        return all(map(np.allclose, _sorted(mine), expected))


def _likely(size: int, grids: Sequence[Sequence[int]]) -> Iterator[Symmetry]:
    """Symmetries, those with the fewest representatives first."""
    yield Symmetry.all(size)
    if _is_power_of_two(size):
        yield Symmetry.all(*_twos(size))
    for grid in grids:
        yield Symmetry.all(*grid)
    if size % 2 == 0 and size > 2:
        yield Symmetry((2, size // 2), (False, True))
    for each, *others in grids:
        count = prod(others)
        yield Symmetry((each, *others), (False, *[True] * len(others)))
        if _is_power_of_two(count):
            yield Symmetry((each, *_twos(count)), (False, *[True] * len(_twos(count))))
        if len(others) > 1:
            still = (False,) * len(others)
            yield Symmetry((each, *others), (*still, True))


def _is_power_of_two(number: int) -> bool:
    return number > 2 and number & (number - 1) == 0


def _twos(number: int) -> list[int]:
    """The digits of two values that make up a power of two."""
    return [2] * (number.bit_length() - 1)


def _sorted(messages: Messages) -> Messages:
    """In an order of their own, whatever the order within a step was."""
    keys = (messages.share, messages.lane, messages.peer, messages.kind, messages.step)
    return messages.where(np.lexsort(keys))
