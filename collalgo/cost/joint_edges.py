"""The edges of trees between many ranks, over links that are alike as one.

Links that all messages load in the same proportion are as good as one. And where ranks
turn into each other, so do the best trees of an allgather, reduce-scatter or allreduce:
with all that they turn into they load links that turn into each other evenly, so that
each is loaded as much as such links are on average by one tree.
"""

import numpy as np

from collalgo.cost.joint_links import joined
from collalgo.cost.routed_edges import BOTH_WAYS, OF_ALL, RoutedEdges
from collalgo.cost.routing import Routing
from collalgo.cost.turning import Loads, turning_of

#: The most ranks, of which all pairs have routes.
MOST = 320


class JointEdges(RoutedEdges):
    """The edges of trees over joint links; both directions of these count as one.

    Parameters
    ----------
    routes, size, collective
        As of :class:`~collalgo.cost.routed_edges.RoutedEdges`.
    root
        The root of a rooted collective.

    Attributes
    ----------
    roots : list of int
        The roots of trees that represent all trees.
    """

    def __init__(self, routes: Routing, size: int, collective: str, root: int):
        super().__init__(routes, size, collective)
        scale = self._busy.max()  # as parts of messages are compared with few digits
        loads = Loads(self._pair, self._link, self._busy / scale)
        alone = np.ones(self.count), np.zeros(self.count, np.bool_)
        loads, links, _ = joined(loads, *alone)
        self.ways, self.roots = 1, [root]
        if collective in (*OF_ALL, *BOTH_WAYS):
            turning = turning_of(size, loads, links)
            links *= np.bincount(turning.orbit, minlength=len(links))[turning.orbit]
            loads = loads._replace(link=turning.orbit[loads.link])
            if collective in OF_ALL:
                self.roots = turning.symmetry.representatives
        self._pair, self._busy = loads.pair, loads.part * scale / links[loads.link]
        found, self._link = np.unique(loads.link, return_inverse=True)
        self._directed, self.count = self._link, len(found)
