"""Paces: the lengths of the steps of a plan.

At first most links wait for data, and at last most have carried all of theirs. So a
plan in which data is passed on has short steps at both ends.
"""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from collalgo.schedule.transfers import Reals


class Pace(NamedTuple):
    """The length of steps.

    Attributes
    ----------
    least : float
        The seconds that a step takes at least, for each byte of a unit.
    fraction : float
        The part of the remaining load of the busiest link that a step takes at most, if
        that is more; with growth, the least and this part of what is left beyond it.
    most : float
        The seconds that a step takes at most, for each byte of a unit.
    growth : float
        How many times as long as the one before a step is at most; 0 for any.
    several : bool
        Whether a rank combines a unit with those of several others in a step.
    ahead : float
        The number of such steps by which transfers may be before their time.
    whole : bool
        Whether a rank combines a unit with those of all its peers in one step, if other
        data fills the links until then.
    """

    least: float
    fraction: float = 0.0
    most: float = inf
    growth: float = 0.0
    several: bool = False
    ahead: float = inf
    whole: bool = False

    def due(self, steps: Reals) -> Reals | None:
        """The times of transfers from their steps; None if all may be before."""
        if self.ahead == inf:
            return None
        step = self.least if self.most == inf else self.most
        found: Reals = (steps - self.ahead) * step
        return found


class Lengths(NamedTuple):
    """The lengths of steps, relative to those of even ones.

    Attributes
    ----------
    fraction : float
        The part of the remaining load of the busiest link that a step takes at most, if
        that is more than the shortest step.
    shortest : int
        The number of the shortest steps that are as long as an even one. If that is
        more than 1, no step is longer than an even one.
    growth : float
        As of a pace.
    lead : float
        The number of even steps by which a transfer is before each that waits for it.
    pieces : int
        The number of parts of a unit in a shortest step, in waves of few parts.
    """

    fraction: float = 0.0
    shortest: int = 1
    growth: float = 0.0
    lead: float = 1.0
    pieces: int = 1

    def parts_of(self, rounds: int) -> int:
        """The parts of a unit in waves in each of some even steps."""
        whole = self.shortest * self.pieces
        return whole if rounds * whole <= MOST_PARTS else self.shortest

    def pace(self, even: float) -> Pace:
        """The pace from the seconds of an even step."""
        if self.shortest == 1:
            return Pace(even, self.fraction)
        least = even / self.shortest
        return Pace(least, self.fraction, most=even, growth=self.growth)

    def least_steps(self, rounds: int) -> int:
        """The steps of the busiest link, which carries its load in some even ones."""
        if self.shortest > 1:
            return rounds
        left, found = float(rounds), 0
        while left > LEFT:
            left -= max(1.0, self.fraction * left)
            found += 1
        return found


#: The most parts of a unit of several pieces in each shortest step.
MOST_PARTS = 512

#: The rounds that may be left of a load by rounding.
LEFT = 1e-6

#: The paces by name. Steps of a ramp become longer from the first one on; others with a
#: fraction are as long as the busiest links have data. A gentle and a steep ramp begin
#: and end with shorter steps. Slow steps grow as little as the relays of a server need
#: that receive not much faster than they send to other hosts.
EVEN, RAMP, FILLED, GENTLE, STEEP, SLOW = (
    *("even", "ramp", "filled"),
    *("gentle", "steep", "slow"),
)
PACES: Mapping[str, Lengths] = MappingProxyType(
    {
        EVEN: Lengths(),
        "fifth": Lengths(0.2),
        "half": Lengths(0.5),
        RAMP: Lengths(0.2, 4, 1.5),
        FILLED: Lengths(0.5, 4),
        GENTLE: Lengths(0.3, 8, 1.5),
        STEEP: Lengths(0.5, 8, 2.0),
        SLOW: Lengths(0.22, 16, 1.28, lead=4.0, pieces=2),
    }
)
