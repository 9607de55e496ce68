"""The traffic of collectives along paths: from one rank or all, each to one rank."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.packing import pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.traffic import LEAST, MOST, Maker, Traffic, units_of
from collalgo.synthesis.tree_transfers import down

#: The units of all pairs of ranks together.
OF_PAIRS = 2048

#: The part of all steps between the units of a block where paths of several hops are
#: spread between direct ones, since they take other links.
SPREAD_PART = 0.25


def scatter(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """Paths from the root to each rank, each with a unit of its block."""
    others, units = pairs.size - 1, units_of(pairs.size)
    unit, number = np.divmod(np.arange(others * units), others)
    block = (root + 1 + number) % pairs.size
    ends = [root] * len(block), block.tolist()
    trees = pairs.once((scatter, root), lambda: pack(pairs, *ends))
    return Traffic(
        pairs,
        Blocks.equal(pairs.size, units),
        *down(trees, block, unit, to_combine),
        trees.busy,
    )


def scatter_evenly(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """The same paths; direct ones carry data beside those of several hops."""
    return scatter(pairs, root, to_combine)._replace(spread=SPREAD_PART)


def scatter_far_first(pairs: PairLinks, root: int, to_combine: bool) -> Traffic:
    """The same paths; the root sends what others relay before all else.

    Then it sends the rest while they relay, and the last step has few hops left.
    """
    found = scatter(pairs, root, to_combine)
    return found._replace(begin=np.zeros(len(found.transfers.block)))


#: The names of the ways in which paths of several hops are spread between direct ones,
#: and in which they come before these.
EVENLY, FAR_FIRST = "evenly", "far_first"

#: The ways from one rank to all others, by name.
PATHS: Mapping[str, Maker] = MappingProxyType(
    {"paths": scatter, EVENLY: scatter_evenly, FAR_FIRST: scatter_far_first}
)


def alltoall(pairs: PairLinks, _root: int, to_combine: bool) -> Traffic:
    """Paths from each rank to each other, each with a unit of their block."""
    pairs, size = pairs.turned, pairs.size
    units = min(MOST, max(LEAST, OF_PAIRS // (size * (size - 1))))
    each = np.flatnonzero(~np.eye(size, dtype=bool))
    each = each[np.isin(each // size, pairs.turning.symmetry.representatives)]
    ends, unit = np.tile(each, units), np.repeat(np.arange(units), len(each))
    source, target = np.divmod(ends, size)
    trees = pack(pairs, source.tolist(), target.tolist())
    return Traffic(
        pairs,
        Blocks.equal(size * size, units),
        *down(trees, ends, unit, to_combine),
        trees.busy,
    )
