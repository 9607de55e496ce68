"""Trees from their centres: the same edges, with the least depth.

The edges of a tree that is used towards its root as well as from it carry the same data
whichever rank is the root. From the middle of its longest path no rank is far.
"""

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule.transfers import Ints

Parents = NDArray[np.int32]


def depths(parents: Parents) -> Ints:
    """The depth of each rank in each tree, one row a tree; 0 for ranks outside."""
    first = np.arange(len(parents))[:, None] * parents.shape[1]
    above = np.where(parents >= 0, parents + first, -1).ravel()
    found, left = np.zeros(len(above), np.int64), np.flatnonzero(above >= 0)
    at = above[left]
    while len(left):
        found[left] += 1
        at = above[at]
        left, at = left[at >= 0], at[at >= 0]
    return found.reshape(parents.shape)


def mean_depth(parents: Parents) -> float:
    """The depth of the deepest rank of a tree, on average over the trees."""
    return float(depths(parents).max(axis=1, initial=0).mean())


def centred(parents: Parents) -> Parents:
    """Trees with the same edges, each from the middle of its longest path."""
    found = _rooted_at(parents, depths(parents).argmax(axis=1))
    depth = depths(found)
    middle = depth.argmax(axis=1)
    up = depth.max(axis=1) // 2
    trees = np.arange(len(parents))
    for step in range(int(up.max(initial=0))):
        middle = np.where(step < up, found[trees, middle], middle)
    return _rooted_at(found, middle)


def _rooted_at(parents: Parents, root: Ints) -> Parents:
    """Trees with the same edges from other roots: paths to these are turned round."""
    found: Parents = parents.copy()
    below, at, trees = (
        np.full(len(root), -1),
        root.astype(np.int64),
        np.arange(len(root)),
    )
    while len(trees):
        above = found[trees, at].astype(np.int64)
        found[trees, at] = below
        left = above >= 0
        below, at, trees = at[left], above[left], trees[left]
    return found
