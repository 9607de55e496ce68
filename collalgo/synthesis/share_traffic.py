"""The traffic of an allreduce in which each rank combines a share of the buffer.

The ranks with fast links combine more of it than the others: each tree has the root
from which it is the cheapest. The result takes the same trees, the other way.
"""

import numpy as np

from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.packing import ANY, pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.traffic import OF_WHOLE, Traffic
from collalgo.synthesis.tree_transfers import down


def shares(pairs: PairLinks, _root: int, to_combine: bool) -> Traffic:
    """Trees from any ranks, each with a unit of the buffer."""
    pairs = pairs.turned
    turns = pairs.turning.count
    unit = np.arange(-(-OF_WHOLE // turns))
    trees = pairs.once(shares, lambda: pack(pairs, [ANY] * len(unit)))
    blocks = Blocks.equal(1, len(unit) * turns)
    found = down(trees, 0 * unit, unit, to_combine)
    return Traffic(pairs, blocks, *found, trees.busy)
