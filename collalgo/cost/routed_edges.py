"""The edges of trees of messages, and the cheapest trees for prices of links."""

import numpy as np

from collalgo._kernels.cost.arborescence import Arborescence
from collalgo.cost.routing import Routing
from collalgo.schedule.transfers import Reals

#: The collectives of trees from all ranks, of trees from one, of paths from one, and
#: those whose data goes towards the roots.
OF_ALL, OF_ONE = ("allgather", "reduce_scatter"), ("broadcast", "reduce")
PATHS, BOTH_WAYS = ("scatter", "gather"), ("allreduce",)
REVERSED = ("reduce_scatter", "reduce", "gather")


class RoutedEdges:
    """The edges of trees: messages from each rank to each, over links.

    Parameters
    ----------
    routes
        The routes of messages.
    size
        The number of ranks.
    collective
        In that of both ways the two directions of a link count as one, which is busy
        for half of both.

    Attributes
    ----------
    count : int
        The number of links.
    ways : int
        The number of directions that count as one.
    """

    def __init__(self, routes: Routing, size: int, collective: str):
        source, target = np.nonzero(~np.eye(size, dtype=bool))
        _, loads = routes.link_loads(source, target)
        limited = np.isfinite(routes.speed[loads.link])
        message, link = loads.message[limited], loads.link[limited]
        busy = loads.part[limited] / routes.speed[link]
        self.ways = 2 if collective in BOTH_WAYS else 1
        way, link, busy = link % self.ways, link // self.ways, busy / self.ways
        if collective in REVERSED:
            source, target = target, source
        found, self._link = np.unique(link, return_inverse=True)
        self._directed = self._link * self.ways + way
        self._pair, self._busy = (source * size + target)[message], busy
        self._trees, self._collective = Arborescence(size), collective
        self.size, self.count = size, len(found)

    def cheapest(self, prices: Reals, root: int) -> tuple[float, Reals]:
        """The price of the cheapest tree, and the seconds of each direction of links.

        The seconds are those for a byte.
        """
        size, pairs = self.size, self.size**2
        weights = self._busy * prices[self._link]
        of_pairs = np.bincount(self._pair, weights, pairs).astype(np.float64)
        cost = of_pairs.reshape(size, size)
        if self._collective in PATHS:
            parts = self._paths(cost, root)
        elif self._collective in BOTH_WAYS:
            parts = self._tree(cost + cost.T, root)
            parts, cost = parts + parts.T, np.minimum(cost, cost.T)
            least = 2 * float((self._tree(cost, root) * cost).sum())
            return least, self._loads(parts)
        else:
            parts = self._tree(cost, root)
        return float((parts * cost).sum()), self._loads(parts)

    def _tree(self, cost: Reals, root: int) -> Reals:
        """The edges of the cheapest tree, as a matrix of ones."""
        parents = self._trees.cheapest(cost, root)
        target = np.flatnonzero(parents >= 0)
        found = np.zeros_like(cost)
        found[parents[target], target] = 1.0
        return found

    def _paths(self, cost: Reals, root: int) -> Reals:
        """The part of the buffer on each edge of the cheapest paths to all ranks."""
        parents = self._trees.nearest(cost, root)
        found = np.zeros_like(cost)
        for rank in range(self.size):
            at = rank
            while at != root:
                found[parents[at], at] += 1 / self.size
                at = parents[at]
        return found

    def _loads(self, parts: Reals) -> Reals:
        """The seconds of each direction for parts of a byte between all ranks."""
        busy = self._busy * parts.ravel()[self._pair] * self.ways
        directions = self.count * self.ways
        return np.bincount(self._directed, busy, directions).astype(np.float64)
