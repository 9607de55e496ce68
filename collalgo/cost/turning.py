"""The symmetry of ranks on a topology: turning some digits of their numbers.

If a machine looks the same from a rank and from that with a digit turned, trees from
one of them, turned, are trees from the other. So trees are packed and transfers ordered
for one of them: on the sets of links that turn into each other, each with the loads of
all turned trees.
"""

from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.symmetry import Symmetry
from collalgo.schedule.transfers import Ints, Reals

#: The parts of a message on a link are compared as multiples of 2 to minus this.
PART_BITS = 30

#: A factor that mixes numbers over 64 bits.
MIX = np.uint64(0x9E3779B97F4A7C15)


class Loads(NamedTuple):
    """The loads of all pairs of ranks on links, one entry for each pair and link."""

    pair: Ints
    link: Ints
    part: Reals


class Turning:
    """The turns of the ranks of a machine.

    Parameters
    ----------
    symmetry
        The digits of the ranks.
    orbit
        The number of the set of each link.

    Attributes
    ----------
    images : ndarray, one row for each turn
        The rank that each rank turns into; the first turn changes nothing.
    first : ndarray
        The lowest rank that turns into each rank.
    """

    def __init__(self, symmetry: Symmetry, orbit: Ints):
        self.symmetry, self.orbit = symmetry, orbit
        ranks = np.arange(symmetry.size)
        turning = [(r, s) for r, s, turns in symmetry.digits if turns]
        steps = product(*(range(radix) for radix, _ in turning))
        self.images: Ints = np.stack(
            [_turned(ranks, turning, amounts) for amounts in steps]
        )
        self.first = symmetry.representatives_of(ranks)
        self._turning = turning

    @classmethod
    def nothing(cls, size: int, links: int = 0) -> "Turning":
        """The first turn alone, of ranks and links that represent themselves."""
        return cls(Symmetry((size,), (False,)), np.arange(links))

    @property
    def count(self) -> int:
        """The number of turns."""
        return len(self.images)

    def number_of(self, one: Ints, other: Ints) -> Ints:
        """The turn by which each of some ranks becomes another one that is like it."""
        found = np.zeros_like(one)
        for radix, stride in self._turning:
            found = found * radix + (other // stride - one // stride) % radix
        return found

    def beside(self, one: Ints, other: Ints) -> tuple[Ints, Ints]:
        """Two ranks of each entry, turned so that the first is the lowest."""
        found = other.copy()
        for radix, stride in self._turning:
            digit, amount = other // stride % radix, one // stride % radix
            found += ((digit - amount) % radix - digit) * stride
        return self.first[one], found


def _turned(
    ranks: Ints, turning: list[tuple[int, int]], amounts: tuple[int, ...]
) -> Ints:
    """Ranks with some digits turned, given by their radix and stride."""
    found: Ints = ranks.copy()
    for (radix, stride), amount in zip(turning, amounts, strict=True):
        digit = ranks // stride % radix
        found += ((digit + amount) % radix - digit) * stride
    return found


def turning_of(size: int, loads: Loads, speed: Reals) -> Turning:
    """The turns that leave the loads and the speeds of links as they are.

    The digits are found from the most significant one on, each as large as possible.

    Parameters
    ----------
    size
        The number of ranks.
    loads
        The loads of all pairs of ranks, ``source * size + target``.
    speed
        The bytes per second of each link.
    """
    search = _Search(size, loads, speed)
    digits: list[tuple[int, bool]] = []
    while (left := size // prod(radix for radix, _ in digits)) > 1:
        digits.append(search.digit(left))
    radices, turns = zip(*reversed(digits), strict=True) if digits else ((), ())
    return Turning(Symmetry(radices, turns), search.orbit)


#: Links in the order of their contents, with their speeds and contents.
_Content: TypeAlias = tuple[Ints, tuple[Reals, NDArray[np.uint64]]]


class _Search:
    """The search for digits that turn, and the sets of links so far."""

    def __init__(self, size: int, loads: Loads, speed: Reals):
        self._size, self._loads, self._speed = size, loads, speed
        parts = np.rint(loads.part * 2**PART_BITS).astype(np.uint64)
        self._parts = mixed(parts) | np.uint64(1)  # as even factors lose bits
        self._names = mixed(np.arange(size**2, dtype=np.uint64))
        self._of_pairs = self._summed(loads.pair, mixed(speed.view(np.uint64)))
        self._alike = self._by_content(self._names)
        self.orbit = np.arange(len(speed))

    def digit(self, left: int) -> tuple[int, bool]:
        """The most significant digit of some ranks: its radix, and whether it turns.

        Of digits that do not turn it is the least one before a digit that does.
        """
        if radix := self._largest(left):
            return radix, True
        for radix in _divisors(left):
            if self._largest(left // radix):
                return radix, False
        return left, False

    def _largest(self, left: int) -> int:
        """The largest most significant digit of some ranks that turns, or 0."""
        for radix in reversed(_divisors(left)):
            if self._turns(radix, left // radix):
                return radix
        return 0

    def _turns(self, radix: int, stride: int) -> bool:
        """Whether a digit turns; then join the links that turn into each other."""
        ranks = np.arange(self._size)
        image = _turned(ranks, [(radix, stride)], (1,))
        pairs = (image[:, None] * self._size + image).ravel()
        if (self._of_pairs[pairs] != self._of_pairs).any():
            return False
        order, keys = self._alike
        other, turned = self._by_content(self._names[pairs])
        if any((a != b).any() for a, b in zip(keys, turned, strict=True)):
            return False
        self._join(other, order)
        return True

    def _by_content(self, names: NDArray[np.uint64]) -> _Content:
        """The links in the order of their contents: by name of the pairs, and speed."""
        content = np.zeros(len(self._speed), np.uint64)
        np.add.at(content, self._loads.link, names[self._loads.pair] * self._parts)
        order = np.lexsort((self._speed, content))
        return order, (self._speed[order], content[order])

    def _summed(self, pair: Ints, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The sum of the values of the links of each pair, by their parts."""
        found = np.zeros(self._size**2, np.uint64)
        np.add.at(found, pair, values[self._loads.link] * self._parts)
        return found

    def _join(self, one: Ints, other: Ints) -> None:
        """Join the sets of links, pair by pair."""
        into = np.empty_like(one)
        into[one] = other
        while True:
            least = np.minimum(self.orbit, self.orbit[into])
            np.minimum.at(least, into, self.orbit)
            if (least == self.orbit).all():
                return
            self.orbit = least


def _divisors(number: int) -> list[int]:
    """The divisors of a number above 1, in ascending order."""
    return [radix for radix in range(2, number + 1) if number % radix == 0]


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that differ in all bits from those of similar numbers."""
    for shift in (29, 32):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * MIX + np.uint64(shift)
    found: NDArray[np.uint64] = numbers ^ (numbers >> np.uint64(31))
    return found
