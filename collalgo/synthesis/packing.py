"""Packings of trees: each carries one unit of data, and no link carries much more.

The least largest load is the solution of a fractional packing problem (Plotkin, Shmoys
and Tardos, 1995), whose optimum for trees to all ranks is the bound by cuts where
switches can be removed by splitting (Edmonds, 1973; Bang-Jensen, Frank and Jackson,
1995; ForestColl, arXiv 2402.06787). Trees are found one by one, each the cheapest for
prices of links that rise with their loads, until no sweep over all trees helps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.synthesis.packing import Packing
from collalgo.schedule.transfers import Reals
from collalgo.synthesis.centres import mean_depth
from collalgo.synthesis.pair_links import PairLinks

#: The price of a link is its load to the power of 2 to each of these numbers in turn.
SQUARINGS = (2, 3, 4, 5, 5, 6, 6, 6)

#: The value of one level less between a rank and the root, as a part of the mean price
#: of an edge of a tree, and of the price of a path.
NEAR, NEAR_ON_PATH = 0.3, 0.1

#: The value of one level less in the mean depth of trees, as a part of the load: each
#: level delays the data by a step.
DEEP = 0.01

#: The root of a tree from any rank, and the end of a tree to all ranks.
ANY = ALL = -1


class Trees(NamedTuple):
    """Trees that carry a unit of data each.

    Attributes
    ----------
    parents : ndarray, one row for each tree
        The parent of each rank; -1 for the root, -2 for a rank outside.
    busy : float
        The seconds that the busiest link needs, for each byte of a unit.
    """

    parents: NDArray[np.int32]
    busy: float


def packing_of(
    pairs: PairLinks,
    roots: Sequence[int],
    ends: Sequence[int] = (),
    both_ways: bool = False,
    weights: Reals | None = None,
) -> Packing:
    """A packing without trees yet; the parameters are those of :func:`pack`."""
    return Packing(
        pairs.size,
        pairs.first,
        pairs.links,
        pairs.parts,
        pairs.usable.astype(np.uint8),
        pairs.bytes_per_second,
        np.array(roots, np.int64),
        np.array(ends or [ALL] * len(roots), np.int64),
        both_ways,
        weights,
        pairs.kinds,
    )


def pack(
    pairs: PairLinks,
    roots: Sequence[int],
    ends: Sequence[int] = (),
    both_ways: bool = False,
    weights: Reals | None = None,
) -> Trees:
    """Pack trees from some roots, one for each entry.

    Parameters
    ----------
    pairs
        The links between the ranks.
    roots
        The root of each tree, or :data:`ANY`.
    ends
        The only rank that each tree leads to; by default all.
    both_ways
        Whether each tree is used towards its root as well as from it.
    weights
        The amount of data of each tree; by default 1.
    """
    packing = packing_of(pairs, roots, ends, both_ways, weights)
    best, least = Trees(packing.parents, np.inf), np.inf
    for number in SQUARINGS:
        busy = packing.sweep(number, NEAR_ON_PATH if ends else NEAR)
        score = busy * (1 + DEEP * mean_depth(packing.parents))
        if score < least:
            best, least = Trees(packing.parents.copy(), busy), score
    return best
