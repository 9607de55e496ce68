"""The blocks of axis 0 that a reduce_scatter leaves with the ranks."""

from typing import Any

from collalgo.engine.arrays import Array, check_overlap
from collalgo.engine.counts import check_counts
from collalgo.engine.results import result_array


def shares_of(rows: int, counts: Any, size: int, caller: str) -> list[int]:
    """The rows of each rank's block; by default they differ by one at most.

    Raises
    ------
    ValueError
        If the counts do not add up to the rows.
    """
    if counts is None:
        share, more = divmod(rows, size)
        return [share + (rank < more) for rank in range(size)]
    counts = check_counts(counts, size, caller)
    if sum(counts) != rows:
        raise ValueError(
            f"{caller}: counts add up to {sum(counts)} rows but buf has "
            f"{rows}; they must be equal"
        )
    return list(counts)


def block_result(
    buf: Any, source: Array, start: int, rows: int, out: Any, caller: str
) -> tuple[Any, Array]:
    """The result of a rank that receives a block of ``source``, and its array."""
    shape = (rows, *source.shape[1:])
    result, target = result_array(buf, out, source, shape, caller)
    if out is not None:
        twins = (source[start : start + rows], target)
        check_overlap(source, target, twins, caller)
    return result, target
