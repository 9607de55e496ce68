"""A candidate of a selection: an algorithm with its price."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.table import shortened
from collalgo.selection.prices import Priced

#: Relative difference up to which two times count as the same in words.
AS_CHEAP = 0.005

#: The orders of ranks, by their names.
ORDERS = {"ring": "ranks along the ring", "narrow": "the narrowest hosts last"}


class Candidate(NamedTuple):
    """An algorithm with its price, or the reason why it cannot run.

    ``order`` is the name of the order of ranks on devices, one of :data:`ORDERS`, or ""
    for the order of their numbers; ``caveat`` is "assumed" if it rests on assumed
    speeds of links, "roughly" if ranks share cores.
    """

    row: Algorithm
    seconds: float
    obstacle: str | None
    order: str = ""
    caveat: str = ""

    @property
    def algorithm(self) -> str:
        return self.row.name

    @property
    def mark(self) -> str:
        """The caveat as printed after the price."""
        return f" ({self.caveat})" if self.caveat else ""

    @property
    def words(self) -> str:
        """The algorithm and its order."""
        along = f", {ORDERS[self.order]}" if self.order else ""
        return shortened(self.row.name) + along

    def as_dict(self) -> dict[str, Any]:
        """The candidate in words and numbers, as for JSON; times in seconds."""
        if self.obstacle is not None:
            return {"algorithm": self.algorithm, "obstacle": self.obstacle}
        found = {"algorithm": self.algorithm, "order": self.order}
        return {**found, "seconds": self.seconds, "caveat": self.caveat}


def candidate_of(one: Priced, nbytes: int, correction: float = 1.0) -> Candidate:
    """A candidate for a size; ``correction`` is a factor of all prices."""
    seconds = float(one.price.seconds(np.array([float(nbytes)]))[0]) * correction
    return Candidate(one.row, seconds, None, one.order, one.price.caveat)


def unable_candidates(obstacles: Mapping[Algorithm, str]) -> list[Candidate]:
    """The algorithms that cannot run, as candidates."""
    return [Candidate(row, float("inf"), why) for row, why in obstacles.items()]
