"""The prices of candidates over all sizes, and from which size on each is cheapest."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from collalgo.algorithms import Algorithm

#: The sizes at which candidates are compared: eight for each power of two.
SIZES = np.concatenate([[0.0], 2.0 ** np.arange(0, 42, 0.125)])

#: Prices that differ by no more than this part are the same.
ALIKE = 1e-9

#: How often the distance between two of them is halved to find where prices cross.
HALVINGS = 30


class Curve(Protocol):
    """What something costs, over the bytes of the whole buffer."""

    def seconds(self, nbytes: Any) -> Any:
        """The prices of an array of numbers of bytes."""


class Priced(NamedTuple):
    """A candidate with its price for every size.

    ``order`` is the name of the order in which ranks stand on devices, if it matters.
    """

    row: Algorithm
    price: Curve
    order: str = ""


def sifted(
    rows: Iterable[Algorithm],
    obstacle: Callable[[Algorithm], str | None],
    price: Callable[[Algorithm], list[Priced]],
) -> tuple[list[Priced], dict[Algorithm, str]]:
    """The rows that can run with their prices, and why the others cannot."""
    able: list[Priced] = []
    unable: dict[Algorithm, str] = {}
    for row in rows:
        if why := obstacle(row):
            unable[row] = why
        else:
            able += price(row)
    return able, unable


class Break(NamedTuple):
    """From so many bytes on a candidate is the cheapest."""

    nbytes: float
    candidate: Priced


def breaks(candidates: Sequence[Priced]) -> list[Break]:
    """From which size on which candidate is the cheapest; of equals the first."""
    table = np.stack([candidate.price.seconds(SIZES) for candidate in candidates])
    best = (table <= table.min(axis=0) * (1 + ALIKE)).argmax(axis=0)
    found = [Break(0.0, candidates[best[0]])]
    for i in np.flatnonzero(np.diff(best)):
        old, new = candidates[best[i]], candidates[best[i + 1]]
        found.append(Break(_crossing(old, new, SIZES[i], SIZES[i + 1]), new))
    return found


def _crossing(old: Priced, new: Priced, low: float, high: float) -> float:
    """Where between two sizes one becomes cheaper than the other."""
    for _ in range(HALVINGS):
        middle = np.array([(low + high) / 2])
        if new.price.seconds(middle) < old.price.seconds(middle):
            high = float(middle[0])
        else:
            low = float(middle[0])
    return high


class Choices:
    """The breaks of a collective, to be looked up by size."""

    def __init__(self, candidates: Sequence[Priced]):
        self.breaks = breaks(candidates)
        self._from = [one.nbytes for one in self.breaks]

    def at(self, nbytes: float) -> Priced:
        """The cheapest for a size."""
        return self.breaks[bisect_right(self._from, nbytes) - 1].candidate
