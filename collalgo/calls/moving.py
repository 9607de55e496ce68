"""Calls that move data, unchanged."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo._kernels.engine import Program
from collalgo.arrays import (
    Array,
    as_array,
    check_counts,
    check_output,
    check_overlap,
    length,
    result_array,
    row_size,
)
from collalgo.calls.caller import Caller
from collalgo.programs import AlgorithmChoice

_NO_DTYPE = np.dtype(np.uint8)


class Moving(Caller):
    """The calls of a communicator that hand arrays from rank to rank."""

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
        program = self._get(
            "broadcast", source.dtype, source.size, None, root, algorithm, None
        )
        target = None if self.rank == root else source
        self._run(program, source, target, timeout, "broadcast")
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
        program = self._get(
            "allgather", source.dtype, source.size, None, 0, algorithm, None
        )
        self._run(program, source, target, timeout, "allgather")
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
        program = self._get(
            "allgather", source.dtype, source.size, None, 0, algorithm, elements
        )
        self._run(program, source, target, timeout, "allgatherv")
        return result

    def gather(
        self,
        buf: Any,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Stack the arrays of all ranks at the root; see the function."""
        source = as_array(buf, "gather")
        result, target = None, None
        if self.rank == root:
            shape = (self.size, *source.shape)
            result, target = result_array(out, source, shape, "gather")
            check_overlap(source, target, (source, target[root, ...]), "gather")
        program = self._get(
            "gather", source.dtype, source.size, None, root, algorithm, None
        )
        self._run(program, source, target, timeout, "gather")
        return result

    def gatherv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Join the arrays of all ranks on axis 0 at the root; see the function."""
        source = as_array(buf, "gatherv")
        counts = self._lengths(source, counts, "gatherv", timeout)
        result, target = None, None
        if self.rank == root:
            result, target = self._joined(source, counts, out, "gatherv")
        elements = tuple(count * row_size(source) for count in counts)
        program = self._get(
            "gather", source.dtype, source.size, None, root, algorithm, elements
        )
        self._run(program, source, target, timeout, "gatherv")
        return result

    def scatter(
        self,
        buf: Any,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Give every rank its part of the array of the root; see the function."""
        source = as_array(buf, "scatter")
        count = source.size
        if self.rank == root:
            if length(source, "scatter") != self.size:
                raise ValueError(
                    f"scatter: axis 0 of the root's array has length {len(source)} but "
                    f"there are {self.size} ranks; they must be equal"
                )
            count //= self.size
        program = self._get("scatter", source.dtype, count, None, root, algorithm, None)
        if self.rank == root:
            self._run(program, source, None, timeout, "scatter")
            return _kept(source, source[root, ...], out, "scatter")
        return self._take(program, source, buf, out, timeout, "scatter")

    def scatterv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Give every rank some rows of the array of the root; see the function."""
        source = as_array(buf, "scatterv")
        rows = length(source, "scatterv")
        at_root = self.rank == root
        if counts is None:
            lengths = self._told(rows, timeout)
            total = lengths[root]
            lengths[root] = 2 * total - sum(lengths)
            counts = lengths
        counts = check_counts(counts, self.size, "scatterv")
        wanted = sum(counts) if at_root else counts[self.rank]
        if rows != wanted:
            raise ValueError(
                f"scatterv: rank {self.rank} passed {rows} rows but counts "
                f"{counts} give it {wanted}; pass the same counts on every rank"
            )
        elements = tuple(count * row_size(source) for count in counts)
        program = self._get(
            "scatter", source.dtype, sum(elements), None, root, algorithm, elements
        )
        if at_root:
            self._run(program, source, None, timeout, "scatterv")
            start = sum(counts[:root])
            mine = source[start : start + counts[root]]
            return _kept(source, mine, out, "scatterv")
        return self._take(program, source, buf, out, timeout, "scatterv")

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
        program = self._get(
            "alltoall", source.dtype, source.size, None, 0, algorithm, None
        )
        self._run(program, source, target, timeout, "alltoall")
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
        program = self._get(
            "alltoall", source.dtype, sum(elements), None, 0, algorithm, elements
        )
        self._run(program, source, target, timeout, "alltoallv")
        return result

    def barrier(
        self, *, algorithm: AlgorithmChoice = None, timeout: float | None = None
    ) -> None:
        """Wait until every rank has come here; see the function."""
        program = self._get("barrier", _NO_DTYPE, 0, None, 0, algorithm, None)
        self._run(program, None, None, timeout, "barrier")

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
        start = sum(counts[: self.rank])
        mine = target[start : start + counts[self.rank]]
        check_overlap(source, target, (source, mine), caller)
        return result, target

    def _take(
        self,
        program: Program,
        like: Array,
        buf: Any,
        out: Any,
        timeout: float | None,
        caller: str,
    ) -> Any:
        """Receive into ``out`` or, without it, into ``buf``."""
        target = like
        if out is not None:
            target = as_array(out, caller)
            check_output(target, like, like.shape, caller)
        self._run(program, None, target, timeout, caller)
        return buf if out is None else out


def _kept(source: Array, mine: Array, out: Any, caller: str) -> Any:
    """The root's own part of what it scatters: a view, or copied to ``out``."""
    if out is None:
        return mine
    target = as_array(out, caller)
    check_output(target, source, mine.shape, caller)
    check_overlap(source, target, (mine, target), caller)
    target[...] = mine
    return out
