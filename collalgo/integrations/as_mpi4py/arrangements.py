"""Where the elements of arrays lie: parts of an array, and distributed arrays."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.layouts import Layout

Indices = Sequence[NDArray[np.int64]]


def subarray(
    element: Layout,
    sizes: Sequence[int],
    subsizes: Sequence[int],
    starts: Sequence[int],
    order: int,
) -> Layout:
    """A part of an array; it has the bounds of the whole array."""
    for size, part, start in zip(sizes, subsizes, starts, strict=True):
        if not 0 < part <= size or not 0 <= start <= size - part:
            fail(
                "ERR_ARG",
                f"rows {start} to {start + part} are out of range: there are {size}",
            )
    indices = [np.arange(s, s + n) for s, n in zip(starts, subsizes, strict=True)]
    return _of_indices(element, sizes, indices, order)


def darray(
    element: Layout,
    rank: int,
    gsizes: Sequence[int],
    distribs: Sequence[int],
    dargs: Sequence[int],
    psizes: Sequence[int],
    order: int,
) -> Layout:
    """The part of one rank of an array that is distributed over a grid of ranks."""
    coordinates = np.unravel_index(rank, psizes)
    axes = zip(gsizes, distribs, dargs, psizes, coordinates, strict=True)
    indices = [_own_indices(*axis) for axis in axes]
    return _of_indices(element, gsizes, indices, order)


def _own_indices(
    size: int, how: int, argument: int, ranks: int, me: Any
) -> NDArray[np.int64]:
    """The indices of an axis that belong to one of the ranks."""
    default = argument == NUMBERS["DISTRIBUTE_DFLT_DARG"]
    if how == NUMBERS["DISTRIBUTE_NONE"]:
        return np.arange(size)
    if how == NUMBERS["DISTRIBUTE_BLOCK"]:
        block = -(-size // ranks) if default else argument
        if block * ranks < size:
            fail("ERR_ARG", f"blocks of {block} on {ranks} ranks do not cover {size}")
        return np.arange(min(me * block, size), min((me + 1) * block, size))
    everything = np.arange(size)
    turn = everything // (1 if default else argument)
    mine: NDArray[np.int64] = everything[turn % ranks == me]
    return mine


def _of_indices(
    element: Layout, sizes: Sequence[int], indices: Indices, order: int
) -> Layout:
    """The elements of an array at the products of some indices of each axis."""
    if order == NUMBERS["ORDER_FORTRAN"]:
        sizes, indices = list(sizes)[::-1], list(indices)[::-1]
    places = np.zeros(1, np.int64)
    for size, index in zip(sizes, indices, strict=True):
        places = (places[:, None] * size + index).ravel()
    blocks = element.placed(places * element.extent, np.ones(len(places), np.int64))
    return blocks.resized(0, math.prod(sizes) * element.extent)
