"""Calls that reduce."""

from collections.abc import Sequence
from typing import Any

from collalgo._kernels.caller import Caller
from collalgo.arrays import (
    Array,
    as_array,
    check_counts,
    check_overlap,
    length,
    result_array,
    result_like,
    row_size,
)
from collalgo.programs import AlgorithmChoice


class Reducing(Caller):
    """The calls of a communicator that combine the arrays of its ranks."""

    def allreduce(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        reproducible: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of all ranks, element by element; see the function."""
        source = as_array(buf, "allreduce")
        target = source if out is None else result_like(out, source, "allreduce")
        self._call(
            "allreduce",
            source,
            target,
            timeout,
            algorithm,
            like=source,
            op=op,
            reproducible=reproducible,
        )
        return buf if out is None else out

    def reduce(
        self,
        buf: Any,
        op: Any = "sum",
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        reproducible: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of all ranks at the root; see the function."""
        source = as_array(buf, "reduce")
        target: Array | None = source
        if self.rank != root:
            target = None
        elif out is not None:
            target = result_like(out, source, "reduce")
        self._call(
            "reduce",
            source,
            target,
            timeout,
            algorithm,
            like=source,
            op=op,
            root=root,
            reproducible=reproducible,
        )
        if self.rank != root:
            return None
        return buf if out is None else out

    def reduce_scatter(
        self,
        buf: Any,
        op: Any = "sum",
        counts: Sequence[int] | None = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        reproducible: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of all ranks, a block at each rank; see the function."""
        source = as_array(buf, "reduce_scatter")
        rows = length(source, "reduce_scatter")
        elements = None
        if counts is None and rows % self.size == 0:
            mine = rows // self.size
            start = mine * self.rank
        else:
            counts = self._shares(rows, counts)
            mine, start = counts[self.rank], sum(counts[: self.rank])
            elements = tuple(count * row_size(source) for count in counts)
        shape = (mine, *source.shape[1:])
        result, target = result_array(out, source, shape, "reduce_scatter")
        if out is not None:
            twins = (source[start : start + mine], target)
            check_overlap(source, target, twins, "reduce_scatter")
        self._call(
            "reduce_scatter",
            source,
            target,
            timeout,
            algorithm,
            like=source,
            op=op,
            counts=elements,
            reproducible=reproducible,
        )
        return result

    def _shares(self, rows: int, counts: Sequence[int] | None) -> list[int]:
        """The rows of each rank's block; by default they differ by one at most."""
        if counts is None:
            share, more = divmod(rows, self.size)
            return [share + (rank < more) for rank in range(self.size)]
        counts = check_counts(counts, self.size, "reduce_scatter")
        if sum(counts) != rows:
            raise ValueError(
                f"reduce_scatter: counts add up to {sum(counts)} rows but buf has "
                f"{rows}; they must be equal"
            )
        return counts

    def scan(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of the ranks up to each rank; see the function."""
        return self._prefix("scan", buf, op, out, algorithm, timeout)

    def exscan(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of the ranks before each rank; see the function."""
        return self._prefix("exscan", buf, op, out, algorithm, timeout)

    def _prefix(
        self,
        name: str,
        buf: Any,
        op: Any,
        out: Any,
        algorithm: AlgorithmChoice,
        timeout: float | None,
    ) -> Any:
        source = as_array(buf, name)
        target = source if out is None else result_like(out, source, name)
        self._call(name, source, target, timeout, algorithm, like=source, op=op)
        return buf if out is None else out
