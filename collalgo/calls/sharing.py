"""Calls after which every rank has something of every other, unchanged."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo._kernels.caller import Caller
from collalgo.arrays import (
    Array,
    as_array,
    check_counts,
    check_overlap,
    length,
    result_array,
    row_size,
)
from collalgo.programs import AlgorithmChoice


class Sharing(Caller):
    """The calls of a communicator that hand arrays from all ranks to all."""

    def broadcast(
        self,
        buf: Any,
        root: int = 0,
        *,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Give every rank the array of the root, in place; see the function."""
        source = as_array(buf, "broadcast")
        target = None if self.rank == root else source
        self._call(
            "broadcast", source, target, timeout, algorithm, like=source, root=root
        )
        return buf

    def allgather(
        self,
        buf: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Stack the arrays of all ranks, at every rank; see the function."""
        source = as_array(buf, "allgather")
        shape = (self.size, *source.shape)
        result, target = result_array(out, source, shape, "allgather")
        if out is not None:
            twins = (source, target[self.rank, ...])
            check_overlap(source, target, twins, "allgather")
        self._call("allgather", source, target, timeout, algorithm, like=source)
        return result

    def allgatherv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Join the arrays of all ranks on axis 0, at every rank; see the function."""
        source = as_array(buf, "allgatherv")
        counts = self._lengths(source, counts, "allgatherv", timeout)
        result, target = self._joined(source, counts, out, "allgatherv")
        elements = tuple(count * row_size(source) for count in counts)
        self._call(
            "allgather",
            source,
            target,
            timeout,
            algorithm,
            like=source,
            counts=elements,
            caller="allgatherv",
        )
        return result

    def alltoall(
        self,
        buf: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Swap equal blocks of axis 0 among all ranks; see the function."""
        source = as_array(buf, "alltoall")
        rows = length(source, "alltoall")
        if rows % self.size:
            raise ValueError(
                f"alltoall: axis 0 of buf has length {rows}, which is no multiple of "
                f"the {self.size} ranks; use alltoallv for blocks of unequal length"
            )
        result, target = result_array(out, source, source.shape, "alltoall")
        check_overlap(source, target, None, "alltoall")
        self._call("alltoall", source, target, timeout, algorithm, like=source)
        return result

    def alltoallv(
        self,
        buf: Any,
        counts: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Swap blocks of axis 0 among all ranks; see the function."""
        source = as_array(buf, "alltoallv")
        rows = length(source, "alltoallv")
        table = np.asarray(counts, np.int64)
        if table.ndim == 1 and len(table) == self.size:
            table = self.allgather(table, timeout=timeout)
        if table.shape != (self.size, self.size) or (table.size and table.min() < 0):
            raise ValueError(
                f"alltoallv: counts of shape {np.shape(counts)} must be the "
                f"{self.size} numbers of rows for the ranks, or those of all ranks as "
                f"a table of {self.size} x {self.size}, none negative"
            )
        if table[self.rank].sum() != rows:
            raise ValueError(
                f"alltoallv: rank {self.rank} passed {rows} rows but counts add up "
                f"to {table[self.rank].sum()}; they must be equal"
            )
        shape = (int(table[:, self.rank].sum()), *source.shape[1:])
        result, target = result_array(out, source, shape, "alltoallv")
        check_overlap(source, target, None, "alltoallv")
        elements = tuple((table * row_size(source)).ravel().tolist())
        self._call(
            "alltoall",
            source,
            target,
            timeout,
            algorithm,
            like=source,
            counts=elements,
            caller="alltoallv",
        )
        return result

    def barrier(
        self, *, algorithm: AlgorithmChoice = None, timeout: float | None = None
    ) -> None:
        """Wait until every rank has come here; see the function."""
        self._call("barrier", None, None, timeout, algorithm)

    def _told(self, rows: int, timeout: float | None) -> list[int]:
        """The numbers that all ranks tell each other."""
        told = self.allgather(np.array([rows], np.int64), timeout=timeout)
        return [int(number) for number in told.ravel()]

    def _lengths(
        self,
        source: Array,
        counts: Sequence[int] | None,
        caller: str,
        timeout: float | None,
    ) -> list[int]:
        """The rows that each rank passes, asked for if they are not given."""
        rows = length(source, caller)
        if counts is None:
            counts = self._told(rows, timeout)
        counts = check_counts(counts, self.size, caller)
        if counts[self.rank] != rows:
            raise ValueError(
                f"{caller}: rank {self.rank} passed {rows} rows but counts give it "
                f"{counts[self.rank]}; pass the same counts on every rank"
            )
        return counts

    def _joined(
        self, source: Array, counts: Sequence[int], out: Any, caller: str
    ) -> tuple[Any, Array]:
        """What a call returns that joins all arrays, and the array that it writes."""
        shape = (sum(counts), *source.shape[1:])
        result, target = result_array(out, source, shape, caller)
        if out is not None:
            start = sum(counts[: self.rank])
            mine = target[start : start + counts[self.rank]]
            check_overlap(source, target, (source, mine), caller)
        return result, target
