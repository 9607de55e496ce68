"""The least time of trees over the routes of messages, proved by prices of links.

The messages that carry an element of an allgather, broadcast, reduce or reduce-scatter
contain a tree from or to each rank that it comes from or goes to. Those of a scatter or
gather contain a path. Those of an allreduce contain two trees of edges without
direction: contract ranks to k parts, and at least 2 (k - 1) messages are between two
parts (Harary and Schwenk, 1974); so with parts of ranks that are nearer to each other
than a distance, for all distances, the messages together are at least twice as long as
the least spanning tree (Kruskal, 1956).

The links of a schedule are busy for at most its time. So for any prices of links that
are 1 together, it takes at least the price of the bytes over the cheapest trees. For
the best prices that is the least time of any packing of trees, which HiGHS and the
cheapest trees find in turn: column generation (Gilmore and Gomory, 1961).
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from collalgo.cost.joint_edges import MOST, JointEdges
from collalgo.cost.routed_edges import BOTH_WAYS, OF_ALL, OF_ONE, PATHS, RoutedEdges
from collalgo.cost.routing import Routing
from collalgo.schedule.transfers import Reals

#: The most roots of trees from all ranks, and the most ranks with others. Of more
#: ranks links that are alike count as one.
MOST_OF_ALL, MOST_RANKS = 32, 64

#: The most links of more ranks, and the most times that prices of these are found.
MOST_LINKS, ATTEMPTS_OF_MANY = 2048, 16

#: The number of trees from each root before the first packing, and the power of the
#: loads of the links that they are found by.
BEGIN, POWER = 48, 16

#: The most times that prices are found, and the relative difference between the time
#: that they prove and that of a packing up to which they are the best.
ATTEMPTS, AS_GOOD = 128, 1e-5

#: The part of the best prices so far in the prices that are tried beside the new ones.
STEADY = 0.7

#: The part of a time that rounding of sums may be.
ROUNDED = 1e-9


def tree_seconds(
    collective: str, routes: Routing, size: int, root: int
) -> tuple[float, bool] | None:
    """The least seconds for each byte of the buffer, and whether trees attain it.

    None for collectives without trees, for too many ranks, and without scipy.
    """
    if collective not in (*OF_ALL, *OF_ONE, *PATHS, *BOTH_WAYS) or size > MOST:
        return None
    if not _has_solver():
        return None
    is_few = size <= (MOST_OF_ALL if collective in OF_ALL else MOST_RANKS)
    links, roots = _edges(collective, routes, size, root, is_few)
    if not is_few and (len(roots) > MOST_OF_ALL or links.count > MOST_LINKS):
        return None
    attempts = ATTEMPTS if is_few else ATTEMPTS_OF_MANY
    seconds, exact = _least_time(links, roots, attempts)
    return seconds, exact and (is_few or collective not in BOTH_WAYS)


def _has_solver() -> bool:
    """Whether scipy is installed."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return False
    return True


def _edges(
    collective: str, routes: Routing, size: int, root: int, is_few: bool
) -> tuple[RoutedEdges, list[int]]:
    """The edges of trees of few or many ranks, and the roots that represent all."""
    if not is_few:
        links = JointEdges(routes, size, collective, root)
        return links, links.roots
    roots = [*range(size)] if collective in OF_ALL else [root]
    return RoutedEdges(routes, size, collective), roots


class _Columns:
    """Trees from some roots in turn, found by prices, and what the prices prove."""

    def __init__(self, links: RoutedEdges, roots: Sequence[int]):
        self._links, self._roots = links, roots
        self._packing = _Packing(links.count, len(roots))
        self._directed: list[Reals] = []
        self.steady = np.full(links.count, 1 / links.count)
        self.least = 0.0

    def add(self, prices: Reals) -> Reals:
        """Add the cheapest trees; the seconds of each link for a byte."""
        found = [self._links.cheapest(prices, root) for root in self._roots]
        number = len(self._roots)
        directed = np.array([loads / number for _, loads in found])
        loads = directed.reshape(number, self._links.count, -1).mean(axis=-1)
        proved = sum(price for price, _ in found) / number
        if proved > self.least:
            self.least, self.steady = proved, prices
        self._packing.new.append(loads)
        self._directed.append(directed)
        total: Reals = loads.sum(axis=0)
        return total

    def begin(self) -> None:
        """Find trees that balance those before, which all together are nearly best."""
        prices, loads = self.steady, np.zeros(self._links.count)
        for _ in range(BEGIN):
            loads += self.add(prices)
            prices = np.maximum((loads / loads.max()) ** POWER, ROUNDED)
            prices /= prices.sum()

    def packed(self) -> tuple[float, Reals]:
        """The time of the best packing of the trees, and the price of each link."""
        return self._packing.best()

    def are_attained(self) -> bool:
        """Whether the trees attain the time that is proved, in each direction."""
        if self._links.ways == 1:
            return True
        directed = _Packing(self._links.count * self._links.ways, len(self._roots))
        directed.new = self._directed
        return directed.best()[0] <= self.least * (1 + AS_GOOD)


def _least_time(
    links: RoutedEdges, roots: Sequence[int], attempts: int
) -> tuple[float, bool]:
    """The seconds that the best prices prove, and whether trees attain them."""
    columns = _Columns(links, roots)
    columns.begin()
    for _ in range(attempts):
        time, prices = columns.packed()
        if time <= columns.least * (1 + AS_GOOD):
            return columns.least * (1 - ROUNDED), columns.are_attained()
        if not prices.any():
            break
        steady = STEADY * columns.steady + (1 - STEADY) * prices
        columns.add(prices)
        columns.add(steady)
    return columns.least * (1 - ROUNDED), False


class _Packing:
    """The least time of any part of each tree, one unit of trees from each root.

    Attributes
    ----------
    new : list
        The seconds of each link for each tree since the last packing; the roots take
        turns.
    """

    def __init__(self, links: int, roots: int):
        from scipy.optimize import linprog
        from scipy.sparse import csc_array, hstack

        self._solve, self._sparse, self._beside = linprog, csc_array, hstack
        self._busy = csc_array(-np.ones((links, 1)))  # the first column is the time
        self._of_root = csc_array((roots, 1))
        self._scale = 0.0
        self.new: list[Reals] = []

    def best(self) -> tuple[float, Reals]:
        """The time, and the price of each link; infinite without prices if unsolved."""
        self._join()
        (links, columns), roots = self._busy.shape, self._of_root.shape[0]
        cost = np.append(1.0, np.zeros(columns - 1))
        limits = self._busy, np.zeros(links), self._of_root, np.ones(roots)
        found = self._solve(cost, *limits, method="highs")
        if not found.success:
            return inf, np.zeros(links)
        prices: Reals = np.maximum(-found.ineqlin.marginals, 0)
        total = float(prices.sum())
        return float(found.fun * self._scale), prices / total if total else prices

    def _join(self) -> None:
        """Add the new trees to the programme."""
        loads = np.concatenate(self.new).T
        self._scale = self._scale or float(loads.max())
        roots, trees = self._of_root.shape[0], loads.shape[1]
        units = self._sparse(np.tile(np.eye(roots), trees // roots))
        busy = self._sparse(loads / self._scale)
        self._busy = self._beside([self._busy, busy], format="csc")
        self._of_root = self._beside([self._of_root, units], format="csc")
        self.new = []
