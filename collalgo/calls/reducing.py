"""Calls that reduce."""

from collections.abc import Sequence
from typing import Any

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
        if out is None:
            target = source
        else:
            target = as_array(out, "allreduce")
            check_output(target, source, source.shape, "allreduce")
            check_overlap(source, target, (source, target), "allreduce")
        program = self._get(
            "allreduce", source.dtype, source.size, op, 0, algorithm, None, reproducible
        )
        self._run(program, source, target, timeout, "allreduce")
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
            target = as_array(out, "reduce")
            check_output(target, source, source.shape, "reduce")
            check_overlap(source, target, (source, target), "reduce")
        program = self._get(
            "reduce", source.dtype, source.size, op, root, algorithm, None, reproducible
        )
        self._run(program, source, target, timeout, "reduce")
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
        if counts is None:
            share, more = divmod(rows, self.size)
            counts = [share + (rank < more) for rank in range(self.size)]
        counts = check_counts(counts, self.size, "reduce_scatter")
        if sum(counts) != rows:
            raise ValueError(
                f"reduce_scatter: counts add up to {sum(counts)} rows but buf has "
                f"{rows}; they must be equal"
            )
        shape = (counts[self.rank], *source.shape[1:])
        result, target = result_array(out, source, shape, "reduce_scatter")
        if out is not None:
            start = sum(counts[: self.rank])
            twins = (source[start : start + counts[self.rank]], target)
            check_overlap(source, target, twins, "reduce_scatter")
        elements = tuple(count * row_size(source) for count in counts)
        program = self._get(
            "reduce_scatter",
            source.dtype,
            source.size,
            op,
            0,
            algorithm,
            elements,
            reproducible,
        )
        self._run(program, source, target, timeout, "reduce_scatter")
        return result

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
        target = source
        if out is not None:
            target = as_array(out, name)
            check_output(target, source, source.shape, name)
            check_overlap(source, target, (source, target), name)
        program = self._get(name, source.dtype, source.size, op, 0, algorithm, None)
        self._run(program, source, target, timeout, name)
        return buf if out is None else out
