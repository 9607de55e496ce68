"""Symmetries of schedules, by which one rank represents many.

A rank is a number of several digits, as the position in a host and the host. In most
schedules some digits turn: ranks that differ in these digits alone have the same
transfers, with the digits of their peers turned by the same amount. One rank represents
all ranks of a ring, all of halving-doubling with binary digits, and all of a torus with
the digits of its grid.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from collalgo._kernels.cost.columns import spread
from collalgo.cost.messages import Messages
from collalgo.errors import TopologyError
from collalgo.schedule.transfers import Ints

#: The most messages of different steps that are priced together, of some 200 bytes.
MOST_MESSAGES = 10_000_000


class Symmetry(NamedTuple):
    """The digits of a rank, least significant first, and which of them rotate."""

    radices: tuple[int, ...]
    turns: tuple[bool, ...]

    @classmethod
    def all(cls, *radices: int) -> "Symmetry":
        """The symmetry in which all digits rotate."""
        return cls(radices, (True,) * len(radices))

    @property
    def size(self) -> int:
        """The number of ranks."""
        return prod(self.radices)

    @property
    def digits(self) -> list[tuple[int, int, bool]]:
        """The radix and the stride of each digit, and whether it turns."""
        strides = accumulate(self.radices, int.__mul__, initial=1)
        return list(zip(self.radices, strides, self.turns, strict=False))

    @property
    def representatives(self) -> list[int]:
        """The ranks that represent all others: those whose rotating digits are 0."""
        ranks = [0]
        for radix, stride, turns in self.digits:
            if not turns:
                ranks = [r + i * stride for i in range(radix) for r in ranks]
        return sorted(ranks)

    def representatives_of(self, ranks: Ints) -> Ints:
        """The representative of each rank."""
        radix, stride, turns = _columns(self)
        first: Ints = ranks[..., None] // stride % radix @ (stride * (1 - turns))
        return first

    def period(self, ranks_per_host: int) -> int:
        """The least number of ranks after which the schedule repeats.

        It is a multiple of ``ranks_per_host``: turning maps each host to all hosts a
        multiple of the period away. It is the size if no smaller period exists.
        """
        still = [radix * stride for radix, stride, turns in self.digits if not turns]
        period = max([ranks_per_host, *still])
        for radix, stride, _ in self.digits:
            if stride < period < stride * radix and (
                period % stride or stride * radix % period
            ):
                return self.size
        return period if period % ranks_per_host == 0 else self.size

    def spread(self, messages: Messages, onto: Sequence[int]) -> Messages:
        """The transfers of some ranks, from those of the representatives."""
        ranks = np.array(onto)
        like = self.representatives_of(ranks)
        order = np.argsort(like, kind="stable")
        columns = spread(*messages, ranks[order], like[order], _columns(self))
        return Messages._make(columns)


@lru_cache(maxsize=64)
def _columns(symmetry: Symmetry) -> Ints:
    """The radix and the stride of each digit, and whether it turns."""
    rows: Ints = np.array(symmetry.digits, np.int64).T.copy()
    return rows


class Folded(NamedTuple):
    """A schedule as the transfers of its representatives."""

    symmetry: Symmetry
    messages: Messages

    def of(self, ranks: Sequence[int]) -> Messages:
        """The transfers of some ranks."""
        if not any(self.symmetry.turns) and len(ranks) == self.symmetry.size:
            return self.messages
        return self.symmetry.spread(self.messages, ranks)


def check_messages(folded: Folded) -> None:
    """Refuse too many messages for memory, as an exchange of all ranks with all."""
    distinct, _ = folded.messages.distinct_steps()
    symmetry = folded.symmetry
    count = len(distinct.step) * symmetry.size // len(symmetry.representatives)
    if count > MOST_MESSAGES:
        raise TopologyError(
            f"{count} messages between {symmetry.size} ranks are more than the "
            f"{MOST_MESSAGES} that are priced together; choose an algorithm with fewer "
            "peers, or fewer hosts"
        )
