"""Graphs of ranks: which ranks each rank sends to."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from collalgo.algorithms.neighbors import Graph
from collalgo.base.arguments import shown
from collalgo.base.digest import blake2b
from collalgo.base.integers import integer, rank_of
from collalgo.errors import MismatchError

NAME = "neighbors"

#: What a rank passes: the neighbors of all ranks, or its own.
WHOLE, OWN = 0, 1


def cartesian(
    dims: Sequence[int], periodic: bool | Sequence[bool] = False
) -> list[list[int]]:
    """The graph of a grid of ranks, for ``comm.neighbors``.

    Ranks fill the grid with the last dimension varying fastest.

    Parameters
    ----------
    dims
        The number of ranks in each dimension.
    periodic
        Whether the last rank of a dimension is next to the first; for all dimensions
        or for each.

    Returns
    -------
    list of list of int
        The ranks next to each rank, in ascending order.

    Examples
    --------
    >>> from collalgo import cartesian
    >>> cartesian((2, 3))
    [[1, 3], [0, 2, 4], [1, 5], [0, 4], [1, 3, 5], [2, 4]]
    >>> cartesian([4], periodic=True)
    [[1, 3], [0, 2], [1, 3], [0, 2]]
    """
    lengths = [integer(length, "dims", "cartesian", 1) for length in dims]
    around = _around(periodic, len(lengths))
    places = np.arange(prod(lengths)).reshape(lengths)
    found: list[set[int]] = [set() for _ in range(places.size)]
    for axis, (length, is_periodic) in enumerate(zip(lengths, around, strict=True)):
        last = length if is_periodic else length - 1
        for number in range(last):
            here = places.take(number, axis).ravel().tolist()
            there = places.take((number + 1) % length, axis).ravel().tolist()
            for one, other in zip(here, there, strict=True):
                found[one].add(other)
                found[other].add(one)
    return [sorted(each - {rank}) for rank, each in enumerate(found)]


def _around(periodic: Any, count: int) -> list[bool]:
    """Whether the last rank of each dimension is next to the first."""
    if isinstance(periodic, bool | np.bool_):
        return [bool(periodic)] * count
    found = list(periodic) if isinstance(periodic, Iterable) else [periodic]
    are_bools = all(isinstance(one, bool | np.bool_) for one in found)
    if len(found) != count or not are_bools:
        raise ValueError(
            f"cartesian: periodic is {shown(periodic)} for {count} dimensions; pass "
            f"True or False, or {count} of them"
        )
    return [bool(one) for one in found]


def agreed_graph(runner: Any, graph: Any) -> Graph:
    """The graph that all ranks pass, or each its own neighbors, checked (collective).

    Raises
    ------
    TypeError, ValueError
        If it is not a graph of these ranks.
    MismatchError
        If ranks pass different graphs.
    """
    kind, rows = _rows_of(graph, runner)
    text = ";".join(",".join(map(str, row)) for row in rows)
    digest = blake2b(text.encode(), digest_size=8).digest() if kind == WHOLE else b""
    mine = np.zeros(9, np.uint8)
    mine[0], mine[1 : 1 + len(digest)] = kind, np.frombuffer(digest, np.uint8)
    every = runner.exchange_as_call(mine, NAME)
    differs = np.flatnonzero((every != every[0]).any(axis=1))
    if len(differs):
        raise MismatchError(
            f"{NAME} #{runner.call_number}: rank {differs[0]} and rank 0 passed "
            "different graphs; pass the same graph, or its own neighbors, on each rank",
            rank=runner.rank,
            collective=NAME,
        )
    if kind == WHOLE:
        return rows
    found = runner.exchange_bytes(np.array(rows[0], np.int64).tobytes(), NAME)
    return tuple(tuple(np.frombuffer(row, np.int64).tolist()) for row in found)


def _rows_of(graph: Any, runner: Any) -> tuple[int, Graph]:
    """What a rank passes: its kind, and the neighbors of all ranks or its own."""
    size = runner.size
    if hasattr(graph, "adj") and hasattr(graph, "nodes"):  # of networkx
        graph = {node: list(graph.adj[node]) for node in graph.nodes}
    if isinstance(graph, Mapping):
        known = {rank_of(rank, "a rank", NAME, size): graph[rank] for rank in graph}
        return WHOLE, tuple(_row(known.get(rank, ()), size) for rank in range(size))
    if not isinstance(graph, Iterable) or isinstance(graph, str | bytes):
        raise TypeError(
            f"{NAME}: graph is {shown(graph)}; pass the neighbors of this rank, or "
            "those of all ranks as a list, a dictionary or a graph of networkx"
        )
    rows = list(graph)
    if all(not isinstance(row, Iterable) for row in rows):
        return OWN, (_row(rows, size),)
    if len(rows) != size:
        raise ValueError(
            f"{NAME}: graph has the neighbors of {len(rows)} ranks, but there are "
            f"{size} ranks; pass a list for each"
        )
    return WHOLE, tuple(_row(row, size) for row in rows)


def _row(targets: Iterable[Any], size: int) -> tuple[int, ...]:
    """The neighbors of a rank, each once and in ascending order.

    Raises
    ------
    ValueError
        If it is a row of an adjacency matrix: 0 or 1 for each of three ranks or more.
    """
    row = [rank_of(to, "a neighbor", NAME, size) for to in targets]
    if len(row) == size > 2 and set(row) <= {0, 1}:
        raise ValueError(
            f"{NAME}: {shown(row)} is a row of an adjacency matrix of {size} ranks; "
            "pass the neighbors of each, as [np.flatnonzero(row) for row in matrix]"
        )
    return tuple(sorted(set(row)))
