"""Trees over relays: the root scatters units, and each relay sends its own to all.

Groups are the ranks of each host, or else those that are nearer to each other than to
others. A unit goes from the root to a relay of its group, from there to the relay of
one other group, from there to those of all others, and from each of these to its group:
over a head of each subgroup of nearer ranks, if it has any. So each rank is at most
five messages from the root, and a unit enters each group and each subgroup once.

What the root itself sends to other groups reaches its own group over a helper: the root
sends each unit once inside the group.
"""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice, product
from math import lcm
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule.transfers import Reals
from collalgo.synthesis.centres import Parents
from collalgo.synthesis.packing import Trees
from collalgo.synthesis.pair_links import MANY, PairLinks
from collalgo.synthesis.wide_trees import over_groups

#: The numbers of units of each relay and first group that are tried where the root is
#: a relay: units that share it may have different helpers.
PIECES = (1, 2, 4)

#: The most edges of all trees.
MOST_EDGES = 1 << 14

#: Of many ranks there are trees over equal groups, with at most this many edges.
MOST_EDGES_OF_MANY = 1 << 16

#: Messages inside a group of fast links are more than this times as fast as others.
FAST = 2.0

#: The subgroups of a group.
Nested: TypeAlias = Sequence[list[int]]


def over_relays(pairs: PairLinks, root: int) -> Iterator[Trees]:
    """Packings of trees over relays, with and without the root as one of them."""
    if pairs.size > MANY:
        yield from _over_many(pairs, root)
        return
    groups = groups_around(pairs, root)
    nested = [_subgroups(pairs, group) for group in groups]
    for first in range(len(groups) == 1, min(2, len(groups[0]))):
        pieces = PIECES if first == 0 and len(groups[0]) > 1 else PIECES[:1]
        for number, piece in product(_numbers_of_relays(groups, first), pieces):
            edges = number * piece * max(1, len(groups) - 1) * pairs.size
            if edges <= MOST_EDGES:
                relays = [*islice(_relays(groups, first), number)]
                parents = _parents(nested, relays, root, piece)
                yield Trees(parents, busy_of(pairs, parents))


def most_edges(size: int) -> int:
    """The most edges of all trees over relays of some ranks."""
    return MOST_EDGES_OF_MANY if size > MANY else MOST_EDGES


def _over_many(pairs: PairLinks, root: int) -> Iterator[Trees]:
    """Packings of trees over equal groups of many ranks."""
    groups = groups_around(pairs, root)
    if len({*map(len, groups)}) == 1:
        most = max(1, MOST_EDGES_OF_MANY // pairs.size)
        for parents in over_groups(groups, most):
            yield Trees(parents, busy_of(pairs, parents))


def groups_around(pairs: PairLinks, root: int) -> list[list[int]]:
    """The groups of ranks, that of the root first; it begins with the root."""
    tried = _on_one_host(pairs), _fast(pairs), _near(pairs)
    every = map(_parted, tried if pairs.size <= MANY else tried[1:])
    found = [groups for groups in every if 1 < len(groups) < pairs.size]
    groups = found[0] if found else _parted(_on_one_host(pairs))
    home = next(group for group in groups if root in group)
    place = home.index(root)
    order = [home, *(group for group in groups if group is not home)]
    return [group[place:] + group[:place] for group in order]


def _subgroups(pairs: PairLinks, group: list[int]) -> Nested:
    """The subgroups of a group, each in its order."""
    found = _parted(_near(pairs)[np.ix_(group, group)])
    if len(found) == len(group):
        return [group]
    return [[group[place] for place in one] for one in found]


def _on_one_host(pairs: PairLinks) -> NDArray[np.bool_]:
    return pairs.on_one_host.reshape(pairs.size, -1) > 0


def _fast(pairs: PairLinks) -> NDArray[np.bool_]:
    """Whether messages between two ranks are much faster than the slowest."""
    found: NDArray[np.bool_] = pairs.slowest < pairs.slowest.max() / FAST
    return found


def _near(pairs: PairLinks) -> NDArray[np.bool_]:
    """Whether messages between two ranks cross the fewest links."""
    links = np.bincount(pairs.pair, pairs.parts, pairs.size**2).round(1)
    links = links.reshape(pairs.size, pairs.size)
    found: NDArray[np.bool_] = links <= links[~np.eye(pairs.size, dtype=bool)].min()
    return found


def _parted(near: NDArray[np.bool_]) -> list[list[int]]:
    """The sets of items that are all near each other; one set if they overlap."""
    near = near | np.eye(len(near), dtype=bool)
    first = near.argmax(axis=1)
    if (near != (first[:, None] == first)).any():
        return [[*range(len(near))]]
    return [np.flatnonzero(first == one).tolist() for one in np.unique(first)]


def _numbers_of_relays(groups: Sequence[list[int]], first: int) -> list[int]:
    """The numbers of relays of a group that are tried: as many as suit all groups."""
    sizes = {len(groups[0]) - first, *map(len, groups[1:])}
    return sorted({min(sizes), max(sizes), lcm(*sizes)})


def _relays(groups: Sequence[list[int]], first: int) -> Iterator[tuple[int, ...]]:
    """A relay of each group, in turn; those of the root begin at a place."""
    every = [groups[0][first:], *groups[1:]]
    return zip(*map(cycle, every), strict=False)


def _parents(
    nested: Sequence[Nested], relays: Sequence[tuple[int, ...]], root: int, pieces: int
) -> Parents:
    """The parents of each rank in all trees."""
    helpers = cycle([rank for part in nested[0] for rank in part if rank != root])
    trees = []
    others = range(1, max(2, len(nested)))
    for some, first, _ in product(relays, others, range(pieces)):
        helper = next(helpers, root) if some[0] == root else some[0]
        trees.append(_tree(nested, some, first % len(nested), (root, helper)))
    return np.array(trees)


def _tree(
    nested: Sequence[Nested], relays: Sequence[int], first: int, ends: tuple[int, int]
) -> Parents:
    """A tree over the relays of all groups, and over a helper in the root's group."""
    root, helper = ends
    found = np.empty(sum(len(part) for group in nested for part in group), np.int32)
    for group, relay in zip(nested, (helper, *relays[1:]), strict=True):
        _spread(found, group, relay, root)
    found[list(relays)] = relays[first]
    found[relays[first]] = relays[0]
    found[helper] = found[relays[0]] = root
    found[root] = -1
    return found


def _spread(found: Parents, group: Nested, relay: int, root: int) -> None:
    """Send a unit from the relay of a group to all its ranks, over heads of parts."""
    place = next(part.index(relay) for part in group if relay in part)
    for part in group:
        head = relay if relay in part else part[place % len(part)]
        found[part] = relay if head == root else head  # the root sends a unit once
        found[head] = relay


def busy_of(pairs: PairLinks, parents: Parents) -> float:
    """The seconds that the busiest link needs, for each byte of a unit of each tree."""
    return float(loads_of(pairs, parents).max())


def loads_of(pairs: PairLinks, parents: Parents) -> Reals:
    """The seconds that each link needs, for each byte of a unit of each tree."""
    tree, rank = np.nonzero(parents >= 0)
    pair = parents[tree, rank].astype(np.int64) * pairs.size + rank
    times = np.bincount(pair, minlength=pairs.size**2)
    loads = times[pairs.pair] * pairs.busy
    return np.bincount(pairs.links, loads).astype(np.float64)
