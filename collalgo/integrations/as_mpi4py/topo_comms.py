"""Communicators with a topology: Cartesian and graph."""

from collections.abc import Sequence
from typing import Any, ClassVar

from collalgo.integrations.as_mpi4py.comm import Intracomm
from collalgo.integrations.as_mpi4py.constants import PROC_NULL
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.neighborhood import Neighborhood
from collalgo.integrations.as_mpi4py.topologies import Cart, DistGraph, Graph


class Topocomm(Neighborhood, Intracomm):
    """Ranks that have neighbors; ``MPI.Topocomm``."""

    arrangement: ClassVar[Any] = (Cart, Graph, DistGraph)

    @classmethod
    def _fits(cls, handle: Any) -> bool:
        if not super()._fits(handle):
            return False
        return not handle or isinstance(handle.state.topology, cls.arrangement)

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """The ranks that this one receives from, and those that it sends to."""
        found: tuple[list[int], list[int]] = self.adjacent()
        return found

    inedges = property(lambda self: self.inoutedges[0])
    outedges = property(lambda self: self.inoutedges[1])
    degrees = property(lambda self: tuple(map(len, self.inoutedges)))
    indegree = property(lambda self: self.degrees[0])
    outdegree = property(lambda self: self.degrees[1])


class Cartcomm(Topocomm):
    """Ranks in a grid; ``MPI.Cartcomm``."""

    arrangement = Cart

    @property
    def _grid_here(self) -> Cart:
        found: Cart = self.state.topology
        return found

    def Get_dim(self) -> int:
        """The number of dimensions."""
        return len(self._grid_here.dims)

    def Get_topo(self) -> tuple[list[int], list[bool], list[int]]:
        """The lengths, whether the dimensions are periodic, and the place here."""
        grid = self._grid_here
        return list(grid.dims), list(grid.periods), grid.coords(self.state.rank)

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """The rank at a place."""
        rank = self._grid_here.rank(coords)
        if rank == PROC_NULL:
            fail("ERR_ARG", f"{list(coords)} is outside of {self._grid_here.dims}")
        return rank

    def Get_coords(self, rank: int) -> list[int]:
        """The place of a rank."""
        return self._grid_here.coords(rank)

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """The ranks that a shift in a dimension comes from, and goes to."""
        grid, rank = self._grid_here, self.state.rank
        return tuple(grid.shifted(rank, direction, step) for step in (-disp, disp))  # type: ignore[return-value]

    def Sub(self, remain_dims: Sequence[bool]) -> Any:
        """Communicators of the grids in which only some dimensions remain."""
        grid, coords = self._grid_here, self._grid_here.coords(self.state.rank)
        kept = [axis for axis, remains in enumerate(remain_dims) if remains]
        lost = [axis for axis, remains in enumerate(remain_dims) if not remains]
        part = Cart([grid.dims[a] for a in kept], [grid.periods[a] for a in kept])
        ranks = [
            world
            for place, world in enumerate(self.state.ranks)
            if all(grid.coords(place)[axis] == coords[axis] for axis in lost)
        ]
        return self._child(Cartcomm, ranks, "sub", ranks, topology=part)

    dim = ndim = property(Get_dim)
    topo = property(Get_topo)
    dims = property(lambda self: self.Get_topo()[0])
    periods = property(lambda self: self.Get_topo()[1])
    coords = property(lambda self: self.Get_topo()[2])


class Graphcomm(Topocomm):
    """Ranks in a graph; ``MPI.Graphcomm``."""

    arrangement = Graph

    def Get_dims(self) -> tuple[int, int]:
        """The numbers of ranks and of edges."""
        graph = self.state.topology
        return len(graph.index), len(graph.edges)

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """The index and the edges."""
        graph = self.state.topology
        return list(graph.index), list(graph.edges)

    def Get_neighbors_count(self, rank: int) -> int:
        """The number of ranks next to one."""
        return len(self.Get_neighbors(rank))

    def Get_neighbors(self, rank: int) -> list[int]:
        """The ranks next to one."""
        return list(self.state.topology.of_rank(rank))

    dims, topo = property(Get_dims), property(Get_topo)
    nnodes = property(lambda self: self.Get_dims()[0])
    nedges = property(lambda self: self.Get_dims()[1])
    index = property(lambda self: self.Get_topo()[0])
    edges = property(lambda self: self.Get_topo()[1])
    neighbors = property(lambda self: self.Get_neighbors(self.state.rank))
    nneighbors = property(lambda self: len(self.neighbors))


class Distgraphcomm(Topocomm):
    """Ranks in a graph, each of which knows its edges; ``MPI.Distgraphcomm``."""

    arrangement = DistGraph

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """The numbers of ranks that send here and receive, and if there are weights."""
        graph = self.state.topology
        is_weighted = graph.weights is not None
        return len(graph.sources), len(graph.destinations), is_weighted

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], Any]:
        """The ranks that send here, those that receive, and the weights."""
        graph = self.state.topology
        return list(graph.sources), list(graph.destinations), graph.weights


Cart.handle_class = Cartcomm
Graph.handle_class = Graphcomm
DistGraph.handle_class = Distgraphcomm
