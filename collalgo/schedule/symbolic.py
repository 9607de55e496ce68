"""Symbolic values: the combined contributions, and their order.

A value is a term; equal terms mean values that are equal to the last bit.
"""

from collections.abc import Sequence


class Terms:
    """All terms of a proof, each under one number; 0 means no value.

    Attributes
    ----------
    known : dict
        The number of the combination of two terms, by both their numbers in one.
    ranks : list of int
        The ranks that contribute to a term, as a bit mask.
    twice : int
        The ranks that the last two combined terms have in common.
    """

    def __init__(self, size: int):
        self.known: dict[int, int] = {}
        self.twice = 0
        self.ranks = [0, *(1 << rank for rank in range(size))]
        self.first = [0, *range(size)]
        self.last = [0, *range(size)]
        self.roundings = [0] * (size + 1)
        self.neighbours = [True] * (size + 1)
        self.serial = [False, True, *[False] * (size - 1)]

    @staticmethod
    def leaf(rank: int) -> int:
        """The term of the contribution of one rank."""
        return rank + 1

    def combine(self, a: int, b: int) -> int:
        """The number of the combination of two terms; 0 if they share a rank."""
        self.twice = self.ranks[a] & self.ranks[b]
        if self.twice:
            return 0
        if self.first[a] > self.first[b]:
            a, b = b, a
        self.ranks.append(self.ranks[a] | self.ranks[b])
        self.first.append(self.first[a])
        self.last.append(max(self.last[a], self.last[b]))
        self.roundings.append(max(self.roundings[a], self.roundings[b]) + 1)
        touch = self.last[a] + 1 == self.first[b]
        self.neighbours.append(touch and self.neighbours[a] and self.neighbours[b])
        self.serial.append(touch and self.serial[a] and self.roundings[b] == 0)
        self.known[min(a, b) << 32 | max(a, b)] = len(self.ranks) - 1
        return len(self.ranks) - 1

    def order(self, used: Sequence[int]) -> str:
        """The order in which the used terms were combined; see :class:`Proof`."""
        if all(self.serial[t] or not self.roundings[t] for t in used):
            return "serial"
        return "ranks" if all(self.neighbours[t] for t in used) else "any"


def members(mask: int) -> list[int]:
    """The ranks in a bit mask."""
    return [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
