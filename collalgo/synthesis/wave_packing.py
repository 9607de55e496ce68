"""Packings of trees that all carry a part of their data in each step.

Then each step but the first and the last ones loads all links as evenly as the trees
together, and data reaches a rank as many steps later as the rank is deep in its tree.
A step costs more, the more peers a rank has: so few trees are preferred, and the number
is that with the best balance.

With B seconds of bytes, K steps from the first data of a tree to the end of its last
rank and a seconds of latency, S equal steps take ``S a + B (1 + K / S)``: at best
``B + 2 sqrt(K a B)``, up to terms without B.
"""

from collections.abc import Sequence
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule.transfers import Ints
from collalgo.synthesis.centres import centred, mean_depth
from collalgo.synthesis.packing import NEAR, NEAR_ON_PATH, Trees, packing_of
from collalgo.synthesis.pair_links import PairLinks

#: The numbers of trees that are tried, unless their edges are more than a limit.
NUMBERS = (1, 2, 3, 4, 6, 7, 8, 12, 14, 16, 24, 32, 36, 48, 64, 96)
MOST_EDGES = 1 << 12

#: The prices of links as of :data:`~collalgo.synthesis.packing.SQUARINGS`: from nearly
#: even prices for few trees, which are far from the optimum at first.
SQUARINGS = (1, 2, 3, 4, 5, 6)

#: The most ranks whose trees are found from hubs and from all ranks.
FEW = 32

#: The bytes whose time is the least, and the seconds of a step and of each peer of a
#: rank in it.
NBYTES, STEP, PEER = 1 << 30, 3e-6, 0.3e-6


def most_edges(size: int) -> int:
    """The most edges of the trees of some ranks together."""
    return (size - 1) * max(_numbers(size))


def _numbers(size: int) -> list[int]:
    """The numbers of trees that are tried for some ranks."""
    return [one for one in NUMBERS if one == 1 or one * size <= MOST_EDGES]


def pack_waves(pairs: PairLinks, root: int) -> Trees:
    """Pack trees from a root to all ranks, as many as take the least time."""
    return _best(pairs, [[root]], both_ways=False)


def pack_waves_both_ways(pairs: PairLinks) -> Trees:
    """Pack trees from their centres, used in both directions.

    Of few ranks trees are found from all roots in turn, too, and not from hubs alone.
    """
    orders = [hubs(pairs).tolist(), [*range(pairs.size)]]
    return _best(pairs, orders[: 1 + (pairs.size <= FEW)], both_ways=True)


def hubs(pairs: PairLinks) -> Ints:
    """The ranks in the order of the seconds to exchange a unit with each other.

    Trees are the less deep, the more ranks their root reaches soon.
    """
    slowest = np.zeros(pairs.size**2)
    np.maximum.at(slowest, pairs.pair, pairs.busy)
    both = slowest.reshape(pairs.size, pairs.size)
    return np.argsort((both + both.T).sum(axis=0), kind="stable")


def _best(pairs: PairLinks, orders: Sequence[list[int]], both_ways: bool) -> Trees:
    """The trees that take the least time, from the roots of an order in turn."""
    best, least = Trees(np.empty((0, pairs.size), np.int32), np.inf), np.inf
    tried = product(orders, _numbers(pairs.size), (NEAR, NEAR_ON_PATH))
    for roots, count, near in tried:
        each = [roots[i % len(roots)] for i in range(count)]
        packing = packing_of(pairs, each, both_ways=both_ways)
        for number in SQUARINGS:
            busy = packing.sweep(number, near)
            if busy / count * NBYTES >= least:
                continue
            parents = packing.parents.copy()
            parents = centred(parents) if both_ways else parents
            if (seconds := _seconds(parents, busy, both_ways)) < least:
                best, least = Trees(parents, busy), seconds
    return best


def _seconds(parents: NDArray[np.int32], busy: float, both_ways: bool) -> float:
    """The seconds that trees take for some bytes in the best number of steps."""
    by_bytes = busy / len(parents) * NBYTES
    later = (1 + both_ways) * mean_depth(parents) - 1
    latency = STEP + PEER * _peers(parents, both_ways)
    return by_bytes + 2 * sqrt(later * latency * by_bytes) + (later + 1) * latency


def _peers(parents: NDArray[np.int32], both_ways: bool) -> int:
    """The messages of the busiest rank in a step."""
    tree, rank = np.nonzero(parents >= 0)
    edges = np.zeros((parents.shape[1], parents.shape[1]), np.bool_)
    edges[parents[tree, rank], rank] = True
    sent, received = edges.sum(axis=1), edges.sum(axis=0)
    each = sent + received if both_ways else np.maximum(sent, received)
    return int(each.max())
