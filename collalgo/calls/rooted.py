"""Calls that move data to one rank or from it, unchanged."""

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
from collalgo.calls.sharing import Sharing
from collalgo.programs import AlgorithmChoice


class Rooted(Sharing):
    """The calls of a communicator that gather arrays at a root or scatter one."""

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
            if out is not None:
                twins = (source, target[root, ...])
                check_overlap(source, target, twins, "gather")
        self._call("gather", source, target, timeout, algorithm, like=source, root=root)
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
        self._call(
            "gather",
            source,
            target,
            timeout,
            algorithm,
            like=source,
            root=root,
            counts=elements,
            caller="gatherv",
        )
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
        result, target = self._taken(source, buf, out, root, "scatter")
        self._call(
            "scatter",
            source if self.rank == root else None,
            target,
            timeout,
            algorithm,
            like=source,
            count=count,
            root=root,
        )
        if self.rank == root:
            return _kept(source, source[root, ...], out, "scatter")
        return result

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
        result, target = self._taken(source, buf, out, root, "scatterv")
        self._call(
            "scatter",
            source if at_root else None,
            target,
            timeout,
            algorithm,
            like=source,
            count=sum(elements),
            root=root,
            counts=elements,
            caller="scatterv",
        )
        if at_root:
            start = sum(counts[:root])
            mine = source[start : start + counts[root]]
            return _kept(source, mine, out, "scatterv")
        return result

    def _taken(
        self, like: Array, buf: Any, out: Any, root: int, caller: str
    ) -> tuple[Any, Array | None]:
        """What a rank other than the root returns, and the array that it writes."""
        if self.rank == root:
            return None, None
        if out is None:
            return buf, like
        target = as_array(out, caller)
        check_output(target, like, like.shape, caller)
        return out, target


def _kept(source: Array, mine: Array, out: Any, caller: str) -> Any:
    """The root's own part of what it scatters: a view, or copied to ``out``."""
    if out is None:
        return mine
    target = as_array(out, caller)
    check_output(target, source, mine.shape, caller)
    check_overlap(source, target, (mine, target), caller)
    target[...] = mine
    return out
