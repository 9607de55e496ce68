"""Packings of trees from one root that all carry a part of their data in each step.

Then each step but the first and the last ones loads all links as evenly as the trees
together, and data reaches a rank as many steps later as the rank is deep in its tree.
A step costs more, the more peers a rank has: so few trees are preferred, and the number
is that with the best balance.
"""

from itertools import product

import numpy as np

from collalgo._kernels.synthesis.packing import Packing
from collalgo.synthesis.packing import NEAR, NEAR_ON_PATH, Trees, mean_depth, packing_of
from collalgo.synthesis.pair_links import PairLinks

#: The numbers of trees that are tried, unless their edges are more than a limit.
NUMBERS = (1, 2, 3, 4, 6, 7, 8, 12, 14, 16, 24, 32, 36, 48, 64, 96)
MOST_EDGES = 1 << 12

#: The prices of links as of :data:`~collalgo.synthesis.packing.SQUARINGS`: from nearly
#: even prices for few trees, which are far from the optimum at first.
SQUARINGS = (1, 2, 3, 4, 5, 6)

#: The value of a tree one level less deep, and of one peer less, as parts of the load:
#: for about 40 steps, each of which takes as long as the data of 1/1000 of the load.
DEEP, PEER = 0.025, 0.004


def pack_waves(pairs: PairLinks, root: int) -> Trees:
    """Pack trees from a root to all ranks, as many as are balanced the best."""
    best, least = Trees(np.empty((0, pairs.size), np.int32), np.inf), np.inf
    few = [one for one in NUMBERS if one == 1 or one * pairs.size <= MOST_EDGES]
    for count, near in product(few, (NEAR, NEAR_ON_PATH)):
        packing = packing_of(pairs, [root] * count)
        for number in SQUARINGS:
            busy = packing.sweep(number, near)
            score = busy / count * _overhead(packing)
            if score < least:
                best, least = Trees(packing.parents.copy(), busy), score
    return best


def _overhead(packing: Packing) -> float:
    """The factor by which levels and messages lengthen the time of all data."""
    parents = packing.parents
    tree, rank = np.nonzero(parents >= 0)
    edges = np.zeros((parents.shape[1], parents.shape[1]), np.bool_)
    edges[parents[tree, rank], rank] = True
    peers = max(edges.sum(axis=0).max(), edges.sum(axis=1).max())
    return 1 + DEEP * mean_depth(parents) + PEER * float(peers)
