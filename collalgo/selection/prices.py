"""The prices of candidates over all sizes, and the sizes where the choice changes."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple, Protocol

import numpy as np

from collalgo.algorithms.catalogue import Algorithm
from collalgo.base.cache import computing
from collalgo.schedule.transfers import Reals

#: The sizes at which candidates are compared: eight for each power of two.
SIZES = np.concatenate([[0.0], 2.0 ** np.arange(0, 42, 0.125)])

#: The relative difference up to which prices are equal.
ALIKE = 1e-9

#: The number of bisections between two of them to find the size where prices cross.
HALVINGS = 30


#: The caveat of prices of ranks that share cores: the kernel decides when each runs.
ROUGHLY = "roughly"


def sizes_beside(nbytes: float) -> Reals:
    """The sizes that decide on a size: itself if compared, or those on both sides."""
    above = int(SIZES.searchsorted(nbytes, "right"))
    is_compared = above == len(SIZES) or SIZES[above - 1] == nbytes
    return SIZES[above - 1 : above if is_compared else above + 1]


class Curve(Protocol):
    """A price over the bytes of the whole buffer."""

    @property
    def caveat(self) -> str:
        """The caveat of the price: "assumed", "roughly" or ""."""

    def seconds(self, nbytes: Any) -> Any:
        """The prices of an array of numbers of bytes."""


class LazyCurve:
    """A price that is computed when it is first read.

    Parameters
    ----------
    compute
        Gives the price.
    """

    def __init__(self, compute: Callable[[], Curve]):
        self._compute = compute

    @cached_property
    def _curve(self) -> Curve:
        return self._compute()

    @property
    def caveat(self) -> str:
        """A caveat of the price."""
        return self._curve.caveat

    def seconds(self, nbytes: Any) -> Any:
        """The prices of an array of numbers of bytes."""
        return self._curve.seconds(nbytes)


class Priced(NamedTuple):
    """A candidate with its price for every size.

    Attributes
    ----------
    row : Algorithm
        The algorithm with its parameters.
    price : Curve
        Its price.
    order : str
        The name of the order of ranks on devices; empty for the order of their numbers.
    work : float
        The bytes that all ranks reduce, for each byte of a buffer: of candidates with
        similar prices the one with the least is chosen.
    """

    row: Algorithm
    price: Curve
    order: str = ""
    work: float = 0.0


class LazyCandidate:
    """A candidate with a lower bound of its price that is refined on demand.

    Parameters
    ----------
    row, order
        As of the candidate.
    least
        The first lower bound of its price.
    estimates
        Starts an iterator of better lower bounds; the last is the price.

    Attributes
    ----------
    least : Curve
        The best lower bound so far.
    known : bool
        Whether it is the price.
    """

    def __init__(
        self,
        row: Algorithm,
        order: str,
        least: Curve,
        estimates: Callable[[], Iterator[Curve]],
    ):
        self.row, self.order = row, order
        self.least, self.known = least, False
        self._begin, self._estimates = estimates, estimates()

    def improve(self) -> None:
        """Compute the next lower bound."""
        try:
            better = next(self._estimates, None)
        except BaseException:  # then it would end as if there were no more
            self._estimates = self._begin()
            raise
        self.known = better is None
        if better is not None:
            self.least = better

    @property
    def priced(self) -> Priced:
        """The candidate with its price, which is computed if need be."""
        while not self.known:
            self.improve()
        return Priced(self.row, self.least, self.order)


def prune(candidates: Sequence[LazyCandidate], sizes: Reals = SIZES) -> list[Priced]:
    """The candidates that are the cheapest for some size, and maybe others.

    Branch and bound: the candidate whose bound is the least for most sizes is priced
    more precisely next, until every bound is above the price of another candidate.
    """
    if not candidates:
        return []
    best = np.full(len(sizes), np.inf)  # of those whose price is known
    least = np.stack([candidate.least.seconds(sizes) for candidate in candidates])
    while True:
        first = least.argmin(axis=0)
        promising = least[first, np.arange(len(sizes))] <= best * (1 + ALIKE)
        if not promising.any():
            return [candidate.priced for candidate in candidates if candidate.known]
        most = int(np.bincount(first[promising]).argmax())
        candidates[most].improve()
        least[most] = candidates[most].least.seconds(sizes)
        if candidates[most].known:
            best, least[most] = np.minimum(best, least[most]), np.inf


def cheapest(
    candidates: Sequence[LazyCandidate], only: float | None = None
) -> list["Break"]:
    """The choice among candidates by size, or for one size; none without candidates."""
    sizes = SIZES if only is None else sizes_beside(only)
    found = prune(candidates, sizes)
    return breaks(found, sizes=sizes) if found else []


class ByPrice:
    """Candidates in ascending order of their prices for a size.

    A candidate is priced once no other has a lower bound below its own: reading the
    first ones prices few others.
    """

    def __init__(self, candidates: Sequence[LazyCandidate], nbytes: float):
        self._candidates, self._size = candidates, np.array([float(nbytes)])

    def __len__(self) -> int:
        return len(self._candidates)

    def __iter__(self) -> Iterator[Priced]:
        return self._ascending(lambda number: number)

    def algorithms(self) -> Iterator[Priced]:
        """The cheapest variant of each algorithm."""
        return self._ascending(lambda number: self._candidates[number].row.base_name)

    def _ascending(self, kind: Callable[[int], Hashable]) -> Iterator[Priced]:
        """The cheapest candidate of each kind."""
        left, found = [self._entry(number) for number in range(len(self))], set()
        heapify(left)
        while left:
            _, known, number = left[0]
            if kind(number) in found:
                heappop(left)
            elif known:
                found.add(kind(number))
                yield self._candidates[number].priced
            else:
                self._improve(number)
                heapreplace(left, self._entry(number))

    def _improve(self, number: int) -> None:
        """Compute the next lower bound of a candidate, unless another thread has."""
        with computing:
            if not self._candidates[number].known:
                self._candidates[number].improve()

    def _entry(self, number: int) -> tuple[float, bool, int]:
        """The order of a candidate; of equal ones those without a price come first."""
        one = self._candidates[number]
        return float(one.least.seconds(self._size)[0]), one.known, number


class Break(NamedTuple):
    """The least size from which on a candidate is chosen."""

    nbytes: float
    candidate: Priced


def breaks(
    candidates: Sequence[Priced],
    alike: float = ALIKE,
    similar: float = 0.0,
    sizes: Reals = SIZES,
) -> list[Break]:
    """The sizes from which on another candidate is chosen, between some sizes.

    Among candidates of similar prices the one with the least work is chosen, and among
    those of equal prices the first; ``similar`` and ``alike`` are relative differences.
    """
    if len(candidates) == 1:  # whose price is not needed
        return [Break(0.0, candidates[0])]
    table = np.stack([candidate.price.seconds(sizes) for candidate in candidates])
    work = np.array([[candidate.work] for candidate in candidates])
    rivals = table <= table.min(axis=0) * (1 + similar)
    table[work > np.where(rivals, work, np.inf).min(axis=0)] = np.inf
    best = (table <= table.min(axis=0) * (1 + alike)).argmax(axis=0)
    found = [Break(0.0, candidates[best[0]])]
    for i in np.flatnonzero(np.diff(best)):
        old, new = candidates[best[i]], candidates[best[i + 1]]
        found.append(Break(_crossing(old, new, sizes[i], sizes[i + 1]), new))
    return found


def _crossing(old: Priced, new: Priced, low: float, high: float) -> float:
    """The size between two at which one becomes cheaper than the other."""
    for _ in range(HALVINGS):
        middle = np.array([(low + high) / 2])
        if new.price.seconds(middle) < old.price.seconds(middle):
            high = float(middle[0])
        else:
            low = float(middle[0])
    return high


class Choices:
    """The choices of a collective, looked up by size.

    Parameters
    ----------
    breaks
        The borders between them, from 0 bytes on.
    """

    def __init__(self, breaks: Sequence[Break]):
        self.breaks = breaks
        self.borders = [one.nbytes for one in breaks]

    def at(self, nbytes: float) -> Priced:
        """The choice for a size."""
        return self.breaks[bisect_right(self.borders, nbytes) - 1].candidate
