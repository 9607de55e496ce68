"""How many lanes algorithms that run schedules together have between two ranks.

Each is the most of any pair of ranks, and a test compares it with the schedules.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from collalgo.algorithms import ring
from collalgo.algorithms.radix import square


def two(_: int, __: Mapping[str, Any]) -> int:
    """The lanes of two trees over the same ranks, or of rings in both directions."""
    return 2


def axes(_: int, given: Mapping[str, Any]) -> int:
    """One torus for each first axis."""
    return len(given.get("dims") or ()) or int(given.get("axes", 2))


def axes_both_ways(size: int, given: Mapping[str, Any]) -> int:
    """One torus for each first axis and each direction."""
    return 2 * axes(size, given)


def rings(size: int, given: Mapping[str, Any]) -> int:
    """The number of rings that join the same two ranks."""
    if not (cycles := given.get("cycles")):
        return 2  # strides that are each other's way back
    met: Counter[frozenset[int]] = Counter()
    for order in (ring.along(cycle, size) for cycle in cycles):
        met.update({frozenset(pair) for pair in pairwise([*order, order[0]])})
    return max(met.values(), default=1)


def forest(_: int, given: Mapping[str, Any]) -> int:
    """The number of trees that join the same two ranks."""
    if not (trees := given.get("trees")):
        return 2
    met: Counter[frozenset[int]] = Counter()
    for parents in trees:
        met.update({frozenset(pair) for pair in enumerate(parents) if pair[1] >= 0})
    return max(met.values(), default=1)


def torus_trees(size: int, given: Mapping[str, Any]) -> int:
    """One tree in each direction of a link; two ranks share a single link."""
    dims = given.get("dims") or square(size, given.get("axes", 2))
    return 4 if 2 in dims else 2
