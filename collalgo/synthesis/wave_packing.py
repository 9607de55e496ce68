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
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule.transfers import Ints
from collalgo.synthesis import relay_trees
from collalgo.synthesis.centres import centred, mean_depth
from collalgo.synthesis.packing import Trees, packing_of
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.relay_trees import over_relays

#: The numbers of trees that are tried, unless their edges are more than a limit.
NUMBERS, OF_MANY = (
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 24, 32, 48),
    (1, 2, 4, 8, 16, 32),
)
MOST_EDGES = 1 << 12

#: The prices of links as of :data:`~collalgo.synthesis.packing.SQUARINGS`: from nearly
#: even prices for few trees, which are far from the optimum at first.
SQUARINGS = (1, 2, 3, 4, 5, 6)

#: The most ranks of which more trees are tried, and trees from all of them.
FEW = 32

#: The numbers of trees from each rank that are tried, unless the edges of all are more
#: than a limit.
OF_EACH, MOST_EDGES_OF_ALL = (2, 3, 4, 6, 8, 16), 1 << 15

#: The values of one level less, and of an edge that another tree has, as parts of the
#: mean price of an edge, that are tried: for trees of some ranks, and of all. Of many
#: ranks only the first are.
VALUES = ((0.3, 0.0), (0.1, 0.0), (1.0, 0.5))
VALUES_OF_ALL = ((0.3, 0.0), (0.3, 1.5))

#: The part of the time of other trees that trees over relays take at most.
CLEARLY = 0.995

#: A link is full with this part of the load of the busiest one; the part by which trees
#: that fill all links are worse than others that take as long.
NEARLY, FULL = 0.98, 0.01

#: The bytes whose time is the least, and the seconds of each peer of a rank in a step.
NBYTES, PEER = 1 << 30, 0.3e-6


def edges_of_waves(size: int, of_all: bool) -> tuple[int, int]:
    """The least and the most edges of all trees together, of all ranks or of one.

    Trees from one rank may be used in both directions.
    """
    if of_all:
        edges = size * (size - 1)
        return OF_EACH[0] * edges, max(_of_each(edges)) * edges
    most = 2 * (size - 1) * max(_numbers(size))
    return size - 1, max(most, relay_trees.most_edges(size))


def _of_each(edges: int) -> list[int]:
    """The numbers of trees from each rank that are tried, for the edges of one each."""
    tried = [one for one in OF_EACH if one * edges <= MOST_EDGES_OF_ALL]
    return tried or [OF_EACH[0]]


def _numbers(size: int) -> list[int]:
    """The numbers of trees that are tried for some ranks."""
    tried = NUMBERS if size <= FEW else OF_MANY
    return [one for one in tried if one == 1 or one * size <= MOST_EDGES]


def pack_waves(pairs: PairLinks, root: int) -> Trees:
    """Pack trees from a root to all ranks, as many as take the least time.

    Trees over relays are chosen if they are clearly faster, or less numerous and
    faster. Of equally fast ones those are that fill the fewest links all the time, as
    the others can make up for the first steps.
    """
    best = _best(pairs, [[root]], both_ways=False)
    least, most = _seconds(pairs, best, both_ways=False), len(best.parents)
    over = [
        (_seconds(pairs, one, both_ways=False), one) for one in over_relays(pairs, root)
    ]
    clearly = [
        (seconds * (1 + FULL * _full(pairs, one)), one)
        for seconds, one in over
        if seconds < least * (CLEARLY if len(one.parents) > most else 1.0)
    ]
    return min(clearly, key=itemgetter(0))[1] if clearly else best


def _full(pairs: PairLinks, trees: Trees) -> float:
    """The part of the links that is about as busy as the busiest one."""
    loads = relay_trees.loads_of(pairs, trees.parents)
    return float((loads >= NEARLY * loads.max()).mean())


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
    slowest = pairs.slowest
    return np.argsort((slowest + slowest.T).sum(axis=0), kind="stable")


def pack_waves_from_all(pairs: PairLinks) -> Trees:
    """Pack trees from each rank that represents others, an equal number for each."""
    roots = [*pairs.turning.symmetry.representatives]
    edges = len(roots) * pairs.turning.count * (pairs.size - 1)
    tried = [roots * one for one in _of_each(edges)]
    return _cheapest(pairs, tried, VALUES_OF_ALL)


def _best(pairs: PairLinks, orders: Sequence[list[int]], both_ways: bool) -> Trees:
    """The trees that take the least time, from the roots of an order in turn."""
    tried = product(orders, _numbers(pairs.size))
    roots = [[order[i % len(order)] for i in range(count)] for order, count in tried]
    values = VALUES if pairs.size <= FEW else VALUES[:1]
    return _cheapest(pairs, roots, values, both_ways)


def _cheapest(
    pairs: PairLinks,
    tried: Sequence[list[int]],
    values: Sequence[tuple[float, float]],
    both_ways: bool = False,
) -> Trees:
    """The trees that take the least time, from some roots."""
    best, least = Trees(np.empty((0, pairs.size), np.int32), np.inf), np.inf
    for roots, (near, fresh) in product(tried, values):
        packing = packing_of(pairs, roots, both_ways=both_ways)
        for number in SQUARINGS:
            busy = packing.sweep(number, near, fresh)
            if _by_bytes(pairs, len(roots), busy) >= least:
                continue
            parents = packing.parents.copy()
            found = Trees(centred(parents) if both_ways else parents, busy)
            if (seconds := _seconds(pairs, found, both_ways)) < least:
                best, least = found, seconds
    return best


def _by_bytes(pairs: PairLinks, count: int, busy: float) -> float:
    """The seconds of the busiest link, from those for each byte of a tree."""
    return busy / (count * pairs.turning.count) * NBYTES


def _seconds(pairs: PairLinks, trees: Trees, both_ways: bool) -> float:
    """The seconds that trees take for some bytes in the best number of steps."""
    by_bytes = _by_bytes(pairs, len(trees.parents), trees.busy)
    later = (1 + both_ways) * mean_depth(trees.parents) - 1
    latency = pairs.latency + PEER * _peers(pairs, trees.parents, both_ways)
    return by_bytes + 2 * sqrt(later * latency * by_bytes) + (later + 1) * latency


def _peers(pairs: PairLinks, parents: NDArray[np.int32], both_ways: bool) -> int:
    """The messages of the busiest rank in a step, with all that they turn into."""
    tree, rank = np.nonzero(parents >= 0)
    up = parents[tree, rank].astype(np.int64)
    sent, received = _degrees(pairs, up, rank), _degrees(pairs, rank, up)
    each = sent + received if both_ways else np.maximum(sent, received)
    return int(each.max())


def _degrees(pairs: PairLinks, one: Ints, other: Ints) -> Ints:
    """The number of different others of each rank."""
    edges = np.zeros((pairs.size, pairs.size), np.bool_)
    edges[pairs.turning.beside(one, other)] = True
    found: Ints = edges.sum(axis=1)
    return found
