"""The topology of a communicator: the neighbours of each rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from collalgo.integrations.as_mpi4py.constants import NUMBERS, PROC_NULL
from collalgo.integrations.as_mpi4py.errors import fail

#: The ranks next to one: those that it receives from, and those that it sends to.
Neighbors = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Cart:
    """A grid of ranks, whose last coordinate varies fastest.

    Attributes
    ----------
    dims : list of int
        The number of ranks in each dimension.
    periods : list of bool
        Whether the last rank is next to the first, in each dimension.
    """

    dims: list[int]
    periods: list[bool]
    number: ClassVar[int] = NUMBERS["CART"]
    handle_class: ClassVar[Any] = None

    def coords(self, rank: int) -> list[int]:
        """The place of a rank."""
        if not 0 <= rank < prod(self.dims):
            fail("ERR_RANK", f"rank {rank} is not in a grid of {self.dims}")
        return [int(x) for x in np.unravel_index(rank, self.dims)] if self.dims else []

    def rank(self, coords: Sequence[int]) -> int:
        """The rank at a place; PROC_NULL outside of the grid."""
        if len(coords) != len(self.dims):
            fail("ERR_ARG", f"{list(coords)} is not a place in a grid of {self.dims}")
        found = 0
        for place, length, is_periodic in zip(
            coords, self.dims, self.periods, strict=True
        ):
            if not is_periodic and not 0 <= place < length:
                return PROC_NULL
            found = found * length + place % length
        return found

    def shifted(self, rank: int, direction: int, steps: int) -> int:
        """The rank some steps away in a dimension; PROC_NULL outside of the grid."""
        if not 0 <= direction < len(self.dims):
            fail("ERR_DIMS", f"dimension {direction} is not one of {self.dims}")
        coords = self.coords(rank)
        coords[direction] += steps
        return self.rank(coords)

    def neighbors(self, rank: int) -> Neighbors:
        """The ranks before and after it in each dimension."""
        axes = range(len(self.dims))
        found = [self.shifted(rank, axis, step) for axis in axes for step in (-1, 1)]
        return found, list(found)

    def tags(self, _rank: int) -> Neighbors:
        """The tags of the messages to both sides in each dimension."""
        places = range(2 * len(self.dims))
        return [place ^ 1 for place in places], list(places)


class _InOrder:
    """Messages of two ranks that are taken in their order."""

    def neighbors(self, rank: int) -> Neighbors:
        raise NotImplementedError

    def tags(self, rank: int) -> Neighbors:
        """The tags of the messages."""
        sources, targets = self.neighbors(rank)
        return [0] * len(sources), [0] * len(targets)


@dataclass(frozen=True)
class Graph(_InOrder):
    """A graph that every rank knows.

    Attributes
    ----------
    index : list of int
        The number of edges of the ranks up to each one.
    edges : list of int
        The ranks next to rank 0, to rank 1, and so on.
    """

    index: list[int]
    edges: list[int]
    number: ClassVar[int] = NUMBERS["GRAPH"]
    handle_class: ClassVar[Any] = None

    def of_rank(self, rank: int) -> list[int]:
        """The ranks next to one."""
        if not 0 <= rank < len(self.index):
            fail("ERR_RANK", f"rank {rank} is not in a graph of {len(self.index)}")
        first = self.index[rank - 1] if rank else 0
        return self.edges[first : self.index[rank]]

    def neighbors(self, rank: int) -> Neighbors:
        """The ranks next to one, which it sends to and receives from."""
        found = self.of_rank(rank)
        return found, list(found)


@dataclass(frozen=True)
class DistGraph(_InOrder):
    """A distributed graph: each rank knows its own edges.

    Attributes
    ----------
    sources, destinations : list of int
        The ranks that this one receives from, and those that it sends to.
    weights : (list of int, list of int) or None
        The weights of the edges.
    """

    sources: list[int]
    destinations: list[int]
    weights: Neighbors | None
    number: ClassVar[int] = NUMBERS["DIST_GRAPH"]
    handle_class: ClassVar[Any] = None

    def neighbors(self, _rank: int) -> Neighbors:
        """The ranks next to this one."""
        return self.sources, self.destinations


def compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """The dimensions of a grid of ``nnodes`` ranks, as equal as possible.

    Parameters
    ----------
    nnodes
        The number of ranks.
    dims
        The number of dimensions, or the length of each; 0 for a free one.
    """
    found = [0] * dims if isinstance(dims, int) else list(dims)
    fixed = prod(length for length in found if length)
    free = [place for place, length in enumerate(found) if not length]
    if min(found, default=0) < 0 or nnodes <= 0 or nnodes % fixed:
        fail("ERR_DIMS", f"{nnodes} ranks do not fill a grid of {found}")
    if free:
        lengths = _balanced(nnodes // fixed, len(free))
        for place, length in zip(free, lengths, strict=True):
            found[place] = length
    elif fixed != nnodes:
        fail("ERR_DIMS", f"{nnodes} ranks do not fill a grid of {found}")
    return found


def _balanced(number: int, parts: int) -> list[int]:
    """Factors of a number, largest first; the largest is as small as possible."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    best = [number] + [1] * (parts - 1)
    if parts > 1:
        choices = (
            sorted([first, *_balanced(number // first, parts - 1)], reverse=True)
            for first in divisors
        )
        best = min(choices)
    return best
