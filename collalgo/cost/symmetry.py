"""Ranks that do the same relative to themselves, so that one stands for many.

A rank is a number of several digits, as the place in a host and the host. Of most
schedules some digits turn: all ranks that differ in them only do the same, when the
digits of their peers are turned as far. Of a ring one rank tells what all do, and so of
halving-doubling with digits of two values, and of a torus with those of its grid.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from collalgo._kernels.cost.columns import spread
from collalgo.cost.messages import Messages
from collalgo.schedule.transfers import Ints


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

    def standing_for(self, ranks: Ints) -> Ints:
        """The representatives of ranks."""
        radix, stride, turns = _columns(self)
        first: Ints = ranks[..., None] // stride % radix @ (stride * (1 - turns))
        return first

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
        like = self.standing_for(ranks)
        order = np.argsort(like, kind="stable")
        columns = spread(*messages, ranks[order], like[order], _columns(self))
        return Messages._make(columns)


@lru_cache(maxsize=64)
def _columns(symmetry: Symmetry) -> Ints:
    """Of each digit how many values it has, what one counts, and whether it turns."""
    rows: Ints = np.array(symmetry._digits, np.int64).T.copy()
    return rows


class Folded(NamedTuple):
    """A schedule by what its representatives do."""

    symmetry: Symmetry
    messages: Messages

    def of(self, ranks: Sequence[int]) -> Messages:
        """What some ranks do."""
        if not any(self.symmetry.turns) and len(ranks) == self.symmetry.size:
            return self.messages
        return self.symmetry.spread(self.messages, ranks)
