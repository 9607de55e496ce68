"""The links that messages between each two ranks take, as columns of numbers."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.joint_links import joined
from collalgo.cost.turning import Loads, Turning, turning_of
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.rank_routes import RankRoutes

Value = TypeVar("Value")

#: More ranks than these are many: their plans take much longer to make.
MANY = 128

#: The digits of the part of a message on a link.
DIGITS = 12


class PairLinks:
    """The directed links of all pairs of ranks, ``source * size + target``.

    Of many ranks the links that all pairs use in the same proportion are one.

    Trees have only edges between ranks that reach each other past all others: a rank
    between two of them would pass the data on, and may as well keep it.

    Attributes
    ----------
    size : int
        The number of ranks.
    first : ndarray
        The index of the first link of each pair, and the number of all at its end.
    pair, links, parts : ndarray
        The pairs, their directed links, and the part of a message on each.
    bytes_per_second : ndarray
        The speed of each directed link.
    usable : ndarray of bool
        Whether a pair may be an edge of a tree.
    on_one_host : ndarray
        1 for each pair of ranks of one host, and 0 for others.
    latencies : ndarray
        The seconds of a message of each pair without bytes.
    assumed : ndarray of bool
        Whether the speed of each directed link is assumed.
    turning : Turning
        The turns of the transfers that are planned: a transfer represents all that it
        turns into. The links of a machine have the first turn only.
    """

    def __init__(
        self,
        loads: Loads,
        bytes_per_second: Reals,
        usable: NDArray[np.bool_],
        on_one_host: Ints,
        latencies: Reals,
        assumed: NDArray[np.bool_],
        turning: Turning,
    ):
        self.size = turning.symmetry.size
        self.first: Ints = np.searchsorted(loads.pair, np.arange(self.size**2 + 1))
        self.pair, self.links, self.parts = loads.pair, loads.link, loads.part
        self.bytes_per_second = bytes_per_second
        self.usable, self.on_one_host = usable, on_one_host
        self.latencies, self.assumed = latencies, assumed
        self.turning = turning
        self._loads = loads
        self._results: dict[Hashable, Any] = {}

    @classmethod
    def of(cls, routes: RankRoutes, reverse: bool = False) -> "PairLinks":
        """The links between ranks, or the other way for trees towards their roots."""
        size = routes.size
        latencies, loads = _loads(routes, reverse)
        source, target = np.divmod(np.arange(size**2), size)
        usable = source != target
        usable[loads.pair[_is_between(routes, loads, size)]] = False
        alike = routes.hosts[source] == routes.hosts[target]
        speed, assumed = routes.speed, routes.assumed
        if size > MANY:
            loads, speed, assumed = joined(loads, speed, assumed)
        known = usable, alike.astype(np.int64), latencies
        return cls(loads, speed, *known, assumed, Turning.nothing(size, len(speed)))

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """A result from these links, computed once."""
        if key not in self._results:
            self._results[key] = make()
        found: Value = self._results[key]
        return found

    def is_like(self, other: "PairLinks") -> bool:
        """Whether the links of another machine differ in their numbers alone."""
        if len(self.links) != len(other.links):
            return False
        numbers = np.unique(np.stack([self.links, other.links]), axis=1)
        if any(len(np.unique(row)) != len(row) for row in numbers):
            return False
        return all(map(np.array_equal, self._unnumbered, other._unnumbered))

    @property
    def _unnumbered(self) -> list[NDArray[Any]]:
        """All that trees and prices depend on, except the numbers of links."""
        of_links = self.bytes_per_second[self.links], self.assumed[self.links]
        of_pairs = self.usable, self.on_one_host, self.latencies
        return [self.pair, self.parts, *of_links, *of_pairs]

    @cached_property
    def slowest(self) -> Reals:
        """The seconds of the slowest link from each rank to each for each byte."""
        seconds = np.zeros(self.size**2)
        np.maximum.at(seconds, self.pair, self.busy)
        return seconds.reshape(self.size, self.size)

    @property
    def busy(self) -> Reals:
        """The seconds of each link of each pair for each byte of a message."""
        seconds: Reals = self.parts / self.bytes_per_second[self.links]
        return seconds

    @property
    def latency(self) -> float:
        """The seconds of the slowest message over an edge of a tree, without bytes."""
        return float(self.latencies[self.usable].max(initial=0.0))

    @cached_property
    def kinds(self) -> Ints:
        """The pair of the lowest rank that each pair turns into."""
        one, other = np.divmod(np.arange(self.size**2), self.size)
        first, second = self.turning.beside(one, other)
        found: Ints = first * self.size + second
        return found

    @cached_property
    def turned(self) -> "PairLinks":
        """The same for transfers that represent all that they turn into.

        The links are sets of those that turn into each other. Each carries a part of
        the loads of all turns.
        """
        turning = turning_of(self.size, self._loads, self.bytes_per_second)
        one, number, members = np.unique(
            turning.orbit, return_inverse=True, return_counts=True
        )
        key = self._loads.pair * len(one) + number[self.links]
        found, which = np.unique(key, return_inverse=True)
        part = np.bincount(which, self.parts, len(found))
        pair, link = np.divmod(found, len(one))
        whole: Reals = part * (turning.count / members)[link]
        loads = Loads(pair, link, whole.round(DIGITS))
        speed = self.bytes_per_second[one]
        known = self.usable, self.on_one_host, self.latencies
        assumed = np.bincount(number, self.assumed) > 0
        return PairLinks(loads, speed, *known, assumed, turning)


def _loads(routes: RankRoutes, reverse: bool) -> tuple[Reals, Loads]:
    """The latencies of all pairs, and their loads on links that limit their speed.

    They are sorted and rounded, so that every rank adds the same numbers in the same
    order, whatever the order of its sets.
    """
    pairs = np.arange(routes.size**2)
    pairs = pairs[pairs // routes.size != pairs % routes.size]
    ends = pairs // routes.size, pairs % routes.size
    found, loads = routes.routing.link_loads(*(ends[::-1] if reverse else ends))
    latencies = np.zeros(routes.size**2)
    latencies[pairs] = found
    limited = np.flatnonzero(routes.limits[loads.link])
    pair, link = pairs[loads.message[limited]], loads.link[limited]
    order = np.lexsort((link, pair))
    parts = loads.part[limited][order].round(DIGITS)
    return latencies, Loads(pair[order], link[order], parts)


def _is_between(routes: RankRoutes, loads: Loads, size: int) -> NDArray[np.bool_]:
    """Whether an end of a link is a third rank, for each load."""
    ends = routes.ends[loads.link]
    source, target = loads.pair[:, None] // size, loads.pair[:, None] % size
    found = (ends >= 0) & (ends != source) & (ends != target)
    return np.asarray(found.any(axis=1))
