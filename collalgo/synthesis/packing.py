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
from collalgo.synthesis.pair_links import PairLinks

#: The price of a link is its load to the power of 2 to each of these numbers in turn.
SQUARINGS = (2, 3, 4, 5, 5, 6, 6, 6)

#: The relative surcharges for edges below the root: with it trees are less deep.
SHALLOW = 0.05

#: The end of a tree to all ranks.
ALL = -1


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


def pack(
    pairs: PairLinks,
    roots: Sequence[int],
    ends: Sequence[int] = (),
    both_ways: bool = False,
) -> Trees:
    """Pack trees from some roots, one for each entry.

    Parameters
    ----------
    pairs
        The links between the ranks.
    roots
        The root of each tree.
    ends
        The only rank that each tree leads to; by default all.
    both_ways
        Whether each tree is used towards its root as well as from it.
    """
    packing = Packing(
        pairs.size,
        pairs.first,
        pairs.links,
        pairs.parts,
        pairs.usable.astype(np.uint8),
        pairs.bytes_per_second,
        np.array(roots, np.int64),
        np.array(ends or [ALL] * len(roots), np.int64),
        both_ways,
    )
    best = Trees(packing.parents, np.inf)
    for number in SQUARINGS:
        busy = packing.sweep(number, SHALLOW)
        if busy < best.busy:
            best = Trees(packing.parents.copy(), busy)
    return best
