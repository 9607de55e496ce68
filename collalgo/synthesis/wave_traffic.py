"""The traffic of trees each of which carries a part of its unit in each step."""

import numpy as np

from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.traffic import Traffic
from collalgo.synthesis.tree_transfers import down, up_and_down
from collalgo.synthesis.wave_packing import (
    pack_waves,
    pack_waves_both_ways,
    pack_waves_from_all,
)


def allgather(pairs: PairLinks, _root: int, to_combine: bool) -> Traffic:
    """Trees from each rank."""
    pairs = pairs.turned
    trees = pairs.once(allgather, lambda: pack_waves_from_all(pairs))
    roots = np.array(pairs.turning.symmetry.representatives)
    unit, number = np.divmod(np.arange(len(trees.parents)), len(roots))
    found = down(trees, roots[number], unit, to_combine)
    blocks = Blocks.equal(pairs.size, len(unit) // len(roots))
    return Traffic(pairs, blocks, *found, trees.busy, in_waves=True)


def broadcast(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Trees from the root."""
    trees = pairs.once((broadcast, root), lambda: pack_waves(pairs, root))
    unit = np.arange(len(trees.parents))
    found = down(trees, 0 * unit, unit, to_combine)
    return Traffic(pairs, Blocks.equal(1, len(unit)), *found, trees.busy, in_waves=True)


def allreduce(pairs: PairLinks, _root: int, _to_combine: bool) -> Traffic:
    """Trees that combine units at their centres, and send them back."""
    trees = pack_waves_both_ways(pairs)
    unit = np.arange(len(trees.parents))
    found = up_and_down(trees, 0 * unit, unit)
    return Traffic(pairs, Blocks.equal(1, len(unit)), *found, trees.busy, in_waves=True)
