"""How communicators get their arrangements."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import integers
from collalgo.integrations.as_mpi4py.constants import NUMBERS, UNDEFINED
from collalgo.integrations.as_mpi4py.errors import fail, raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.infos import INFO_NULL
from collalgo.integrations.as_mpi4py.topologies import Cart, DistGraph, Graph

UNWEIGHTED, NO_WEIGHTS = NUMBERS["UNWEIGHTED"], NUMBERS["WEIGHTS_EMPTY"]


class CanArrange:
    """The calls that arrange ranks; a mixin of communicators.

    Ranks keep their order: ``reorder`` changes nothing.
    """

    state: Any
    _child: Any

    @raises_mpi_exceptions
    def Create_cart(
        self, dims: Sequence[int], periods: Any = None, reorder: bool = False
    ) -> Any:
        """A Cartesian communicator; null for the ranks outside the grid."""
        del reorder
        return self._arranged(self._grid(dims, periods), prod(dims))

    def _grid(self, dims: Sequence[int], periods: Any) -> Cart:
        lengths = [int(length) for length in dims]
        if periods is None or isinstance(periods, bool | int):
            periods = [bool(periods)] * len(lengths)
        if len(periods) != len(lengths):
            raise ValueError(
                f"{len(periods)} periods are given for {len(lengths)} dimensions"
            )
        if prod(lengths) > self.state.size:
            fail(
                "ERR_DIMS",
                f"a grid of {lengths} needs {prod(lengths)} ranks but "
                f"there are {self.state.size}",
            )
        return Cart(lengths, [bool(is_periodic) for is_periodic in periods])

    @raises_mpi_exceptions
    def Create_graph(
        self, index: Sequence[int], edges: Sequence[int], reorder: bool = False
    ) -> Any:
        """A graph communicator; ``index`` may begin with 0."""
        del reorder
        graph = _graph(index, edges)
        return self._arranged(graph, len(graph.index))

    @raises_mpi_exceptions
    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int] | None,
        destinations: Sequence[int] | None,
        sourceweights: Any = None,
        destweights: Any = None,
        info: Any = INFO_NULL,
        reorder: bool = False,
    ) -> Any:
        """A graph communicator; each rank passes its own edges."""
        del info, reorder
        incoming = [] if sources is None else list(map(int, sources))
        outgoing = [] if destinations is None else list(map(int, destinations))
        weights = [
            _weights(sourceweights, incoming),
            _weights(destweights, outgoing),
        ]
        known = None if None in weights else (weights[0], weights[1])
        return self._arranged(DistGraph(incoming, outgoing, known))  # type: ignore[arg-type]

    @raises_mpi_exceptions
    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Any = None,
        info: Any = INFO_NULL,
        reorder: bool = False,
    ) -> Any:
        """A graph communicator; each rank passes some of the edges."""
        del info, reorder
        given = _weights(weights, list(destinations))
        starts = [s for s, n in zip(sources, degrees, strict=True) for _ in range(n)]
        known = given or [1] * len(starts)
        rows = np.array([starts, list(destinations), known], np.int64).T
        mine = [given is not None, *rows.ravel().tolist()]
        everyone = integers.allgather(self.state.engine, mine)
        edges = [edge for _, *flat in everyone for edge in np.reshape(flat, (-1, 3))]
        is_weighted = any(has for has, *_ in everyone)
        me = self.state.rank
        incoming = [(int(s), int(w)) for s, end, w in edges if end == me]
        outgoing = [(int(end), int(w)) for s, end, w in edges if s == me]
        all_weights = [w for _, w in incoming], [w for _, w in outgoing]
        graph = DistGraph(
            [rank for rank, _ in incoming],
            [rank for rank, _ in outgoing],
            all_weights if is_weighted else None,
        )
        return self._arranged(graph)

    def _arranged(self, topology: Any, ranks: int | None = None) -> Any:
        """A communicator of the first ranks, with an arrangement."""
        members = self.state.ranks[:ranks]
        return self._child(
            topology.handle_class, members, "arranged", topology=topology
        )

    def Cart_map(self, dims: Sequence[int], periods: Any = None) -> int:
        """The rank that this one would have in a grid; UNDEFINED if none."""
        _ = self._grid(dims, periods)
        return self._kept(prod(dims))

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """The rank that this one would have in a graph; UNDEFINED if none."""
        return self._kept(len(_graph(index, edges).index))

    def _kept(self, ranks: int) -> int:
        rank: int = self.state.rank
        return rank if rank < ranks else UNDEFINED


def _graph(index: Sequence[int], edges: Sequence[int]) -> Graph:
    """A graph; its index may begin with 0."""
    ends = list(index)
    if ends and ends[0] == 0 and len(ends) > 1:
        ends = ends[1:]
    if ends and ends[-1] != len(edges):
        fail(
            "ERR_ARG", f"the index ends at {ends[-1]}, but there are {len(edges)} edges"
        )
    return Graph(ends, list(edges))


def _weights(given: Any, ranks: list[int]) -> list[int] | None:
    """The weights of edges; None without weights."""
    if given is None and not ranks:
        return []
    if given is None or (isinstance(given, int) and given == UNWEIGHTED):
        return None
    if isinstance(given, int) and given == NO_WEIGHTS:
        given = []
    if len(given) != len(ranks):
        raise ValueError(f"{len(given)} weights are given for {len(ranks)} edges")
    return list(given)
