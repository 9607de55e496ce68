"""The blocks of a buffer, and the units of data that each is cut into."""

from typing import NamedTuple

import numpy as np

from collalgo.schedule.transfers import Ints, Reals


class Blocks(NamedTuple):
    """The blocks of a buffer, one entry for each.

    Attributes
    ----------
    units : ndarray
        The number of units of a block.
    share : ndarray
        The part of the buffer that a unit of a block is.
    """

    units: Ints
    share: Reals

    @classmethod
    def equal(cls, number: int, units: int) -> "Blocks":
        """Blocks of the same size, each cut into some units."""
        return cls.of(np.full(number, units), np.full(number, 1 / number))

    @classmethod
    def of(cls, units: Ints, part: Reals) -> "Blocks":
        """Blocks that are each a part of the buffer, cut into some units."""
        return cls(units, part / np.maximum(units, 1))

    @property
    def number(self) -> int:
        """The number of blocks."""
        return len(self.units)

    @property
    def part(self) -> Reals:
        """The part of the buffer that each block is."""
        return self.share * self.units

    @property
    def largest(self) -> float:
        """The part of the buffer that the largest unit is."""
        return float(self.share.max())

    @property
    def weights(self) -> Reals:
        """The size of a unit of each block, as a part of the largest unit."""
        return self.share / self.largest

    def split(self, parts: int) -> "Blocks":
        """The same blocks with each unit cut into equal parts."""
        return Blocks(self.units * parts, self.share / parts)
