"""Collectives among neighbors in a graph of the ranks."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.listed import move
from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.neighbors import Graph, OnGraph
from collalgo.base.cache import recalled
from collalgo.base.units import counted, number_of_bytes
from collalgo.comm.agreed_counts import agreed_counts, exchanged_counts
from collalgo.comm.neighbor_forms import NeighborForms
from collalgo.comm.of_process import OfProcess
from collalgo.comm.types import Array, ArrayLike
from collalgo.engine.arrays import as_array, check_overlap, length
from collalgo.engine.counts import check_counts, elements_of
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.results import result_array

if TYPE_CHECKING:
    from collalgo.comm.runner import Runner


class Neighbors(NeighborForms, OfProcess):
    """The neighbors of this rank in a graph, and collectives among neighbors.

    Made by :meth:`Communicator.neighbors`. Results are in the order of ``sources``,
    blocks to send in that of ``targets``. Each call is a schedule like those of other
    collectives: proved at its first use, and the cheaper one of sending to all
    neighbors at once or to one after the other.

    Attributes
    ----------
    graph : tuple of tuple of int
        The ranks that each rank sends to.
    sources, targets : tuple of int
        The ranks that this rank receives from and sends to, in ascending order.
    """

    def __init__(self, runner: "Runner", graph: Graph):
        self._runner, self.graph = runner, graph
        rank = runner.rank
        self.targets = graph[rank]
        self.sources = tuple(r for r, targets in enumerate(graph) if rank in targets)

    def __repr__(self) -> str:
        return f"<Neighbors from {self.sources} to {self.targets}>"

    def schedule(self, collective: str, nbytes: int | str) -> OnGraph:
        """The schedule of an allgather or alltoall with blocks of ``nbytes``.

        It is a function of a group, to be passed to :func:`collalgo.verify` and
        :func:`collalgo.simulate`. It is chosen for the next power of two, so that few
        sizes are priced.
        """
        if collective not in ("allgather", "alltoall"):
            raise ValueError(
                f"neighbors: {collective!r} is not a collective among neighbors; "
                "choose allgather or alltoall"
            )
        return self._schedule(collective, number_of_bytes(nbytes, "neighbors"))

    def _schedule(self, call: str, nbytes: int) -> OnGraph:
        """The schedule of a call among neighbors, without checks."""
        upper = 1 << max(0, nbytes - 1).bit_length()
        chosen: dict[Any, OnGraph] = self._runner.programs.on_graphs
        return recalled(chosen, (self.graph, call, upper), self._cheapest)

    def _cheapest(self, question: tuple[Graph, str, int]) -> OnGraph:
        _, call, nbytes = question
        collective, uniform = call.removesuffix("v"), call == "alltoall"
        pricer, size = self._runner.programs.pricer, self._runner.size

        def seconds(schedule: OnGraph) -> float:
            row = Algorithm(
                collective, schedule.label, schedule, size_obstacle=schedule.obstacle
            )
            return float(pricer.price_one(row).price.seconds(nbytes * size))

        ways = [
            OnGraph(collective, self.graph, paced, uniform) for paced in (False, True)
        ]
        return min(ways, key=seconds)

    @cached_property
    def _blocks(self) -> NDArray[np.int64]:
        """A block for each edge, as a table of all ranks."""
        table = np.zeros((self._runner.size,) * 2, np.int64)
        for rank, targets in enumerate(self.graph):
            table[rank, list(targets)] = 1
        return table

    def allgather(
        self,
        buf: ArrayLike,
        *,
        out: "ArrayLike | None" = None,
        timeout: float | None = None,
    ) -> Array:
        """Send an array to all targets, and stack those of the sources.

        Parameters
        ----------
        buf
            An array of the same dtype and number of elements on every rank.
        out
            The array for the result, with memory of its own; by default a new array.
        timeout
            Seconds to wait for the other ranks.

        Returns
        -------
        array
            Of shape ``(len(sources), *buf.shape)``.
        """
        source = as_array(buf, "allgather")
        shape = (len(self.sources), *source.shape)
        result, target = result_array(buf, out, source, shape, "allgather")
        check_overlap(source, target, None, "allgather")
        schedule = self._schedule("allgather", source.nbytes)
        move(self._runner, "allgather", source, target, timeout, schedule, None)
        return result

    def allgatherv(
        self,
        buf: ArrayLike,
        *,
        out: "ArrayLike | None" = None,
        timeout: float | None = None,
    ) -> Array:
        """Send an array to all targets, and join those of the sources on axis 0.

        Parameters
        ----------
        buf
            An array whose axis 0 may have another length on each rank; the ranks
            exchange the lengths, which costs a small allgather.
        out, timeout
            As of :meth:`allgather`.

        Returns
        -------
        array
            The rows of the sources, in their order.
        """
        source, caller = as_array(buf, "allgatherv"), "allgatherv"
        return exchanged_counts(
            self._runner, [length(source, caller)], caller, timeout, source,
            rest=partial(self._gather_rows, buf, out, timeout),
            at_once=isinstance(source, Shadow),
        )  # fmt: skip

    def _gather_rows(
        self, buf: Any, out: Any, timeout: float | None, lengths: NDArray[np.int64]
    ) -> Array:
        """Move the arrays of all ranks along the graph."""
        source, caller = as_array(buf, "allgatherv"), "allgatherv"
        rows = lengths[:, 0].tolist()
        elements = elements_of(rows, source, caller)
        shape = (sum(rows[rank] for rank in self.sources), *source.shape[1:])
        result, target = result_array(buf, out, source, shape, caller)
        check_overlap(source, target, None, caller)
        schedule = self._schedule(caller, max(elements) * source.itemsize)
        move(self._runner, "allgather", source, target, timeout, schedule, elements)
        return result

    def alltoall(
        self,
        buf: ArrayLike,
        *,
        out: "ArrayLike | None" = None,
        timeout: float | None = None,
    ) -> Array:
        """Send a block to each target, and receive one from each source.

        Parameters
        ----------
        buf
            An array of shape ``(len(targets), *block)``, with the same dtype and block
            on every rank.
        out, timeout
            As of :meth:`allgather`.

        Returns
        -------
        array
            Of shape ``(len(sources), *block)``.
        """
        source = as_array(buf, "alltoall")
        if length(source, "alltoall") != len(self.targets):
            raise ValueError(
                f"alltoall: axis 0 of buf has length {len(source)}, but this rank "
                f"sends to {counted(len(self.targets), 'neighbor')}; they must be equal"
            )
        return self._alltoall(buf, source, out, timeout, "alltoall", self._blocks)

    def alltoallv(
        self,
        buf: ArrayLike,
        counts: Sequence[int],
        receive_counts: Sequence[int] | None = None,
        *,
        out: "ArrayLike | None" = None,
        timeout: float | None = None,
    ) -> Array:
        """Send rows to each target, and receive rows from each source.

        Parameters
        ----------
        buf
            An array whose axis 0 has the rows for each target, in their order.
        counts
            The number of rows for each target; all ranks exchange them, which costs a
            small allgather.
        receive_counts
            The number of rows from each source, on every rank or on none; all ranks
            raise an error if two differ in what one sends to the other.
        out, timeout
            As of :meth:`allgather`.

        Returns
        -------
        array
            The received rows, in the order of the sources.
        """
        source = as_array(buf, "alltoallv")
        sent = self._of_all_ranks(counts, self.targets)
        if sum(sent) != length(source, "alltoallv"):
            raise ValueError(
                f"alltoallv: buf has {len(source)} rows but counts add up to "
                f"{sum(sent)}; they must be equal"
            )
        rest = partial(self._alltoall, buf, source, out, timeout, "alltoallv")
        at_once = isinstance(source, Shadow)
        if receive_counts is None:
            return exchanged_counts(
                self._runner, sent, "alltoallv", timeout, source,
                rest=rest, at_once=at_once,
            )  # fmt: skip
        received = self._of_all_ranks(receive_counts, self.sources)
        return agreed_counts(
            self._runner, sent, received, timeout, like=source,
            rest=rest, at_once=at_once,
        )  # fmt: skip

    def _of_all_ranks(self, counts: Sequence[int], ranks: Sequence[int]) -> list[int]:
        """The rows for all ranks, from those for some."""
        found = [0] * self._runner.size
        rows = check_counts(counts, len(ranks), "alltoallv", "neighbor")
        for rank, count in zip(ranks, rows, strict=True):
            found[rank] = count
        return found

    def _alltoall(
        self,
        buf: Any,
        source: NDArray[Any],
        out: Any,
        timeout: float | None,
        caller: str,
        table: NDArray[np.int64],
    ) -> Array:
        """Move the blocks of a table of rows."""
        elements = elements_of(table.ravel().tolist(), source, caller)
        rows = int(table[:, self._runner.rank].sum())
        result, target = result_array(
            buf, out, source, (rows, *source.shape[1:]), caller
        )
        check_overlap(source, target, None, caller)
        schedule = self._schedule(caller, max(elements) * source.itemsize)
        move(self._runner, "alltoall", source, target, timeout, schedule, elements)
        return result
