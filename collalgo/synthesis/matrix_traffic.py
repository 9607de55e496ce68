"""The traffic of an alltoall with blocks of different sizes."""

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.schedule.transfers import Reals
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.packing import pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.traffic import GOLDEN, MOST, Traffic
from collalgo.synthesis.tree_transfers import down

#: The most units of the rank that sends or receives the most in an alltoallv, and those
#: of all ranks if they send as much.
OF_BUSIEST, OF_ALL_RANKS = 960, 4096


def alltoallv(pairs: PairLinks, matrix: ByteMatrix) -> Traffic:
    """Paths from each rank to each other, with units of about the same size.

    Pairs of ranks without bytes have a path as well, so that the plan is one of an
    alltoall.
    """
    size = pairs.size
    each = np.flatnonzero(~np.eye(size, dtype=bool))
    blocks = _blocks_of(matrix)
    ends = np.repeat(each, blocks.units[each])
    first = np.cumsum(blocks.units[each]) - blocks.units[each]
    unit = np.arange(len(ends)) - np.repeat(first, blocks.units[each])
    order = np.lexsort((ends, (unit + 0.5) / blocks.units[ends]))
    ends, unit = ends[order], unit[order]
    weights = blocks.weights[ends]
    source, target = np.divmod(ends, size)
    trees = pack(pairs, source.tolist(), target.tolist(), weights=weights)
    found = down(trees, ends, unit)
    begin = _spread(trees.parents)[np.nonzero(trees.parents >= 0)[0]]
    return Traffic(pairs, blocks, *found, trees.busy, begin)


def _spread(paths: NDArray[np.int32]) -> Reals:
    """The places of the units of each path, spread evenly from 0 to 1.

    So each path carries data in all steps, and none waits for those before it.
    """
    _, path, counts = np.unique(paths, axis=0, return_inverse=True, return_counts=True)
    path = path.ravel()
    order = np.argsort(path, kind="stable")
    number = np.empty(len(path), np.int64)
    number[order] = np.arange(len(path)) - np.repeat(np.cumsum(counts) - counts, counts)
    found: Reals = (number + path * GOLDEN % 1) / counts[path]
    return found


def _blocks_of(matrix: ByteMatrix) -> Blocks:
    """The blocks of a matrix: a rank that sends or receives the most has many units."""
    nbytes = matrix.nbytes.ravel()
    most = max(matrix.nbytes.sum(axis=0).max(), matrix.nbytes.sum(axis=1).max(), 1)
    ranks = max(1, matrix.total // most)  # as busy as that one
    wanted = min(OF_BUSIEST, max(MOST, OF_ALL_RANKS // ranks))
    units = np.maximum(1, -(-nbytes * wanted // most))
    return Blocks.of(units, matrix.part)
