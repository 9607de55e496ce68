"""The counts of calls in which each rank passes only its own counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.base.units import counted
from collalgo.engine.arrays import row_size
from collalgo.engine.counts import check_counts
from collalgo.engine.dtypes import dtype_code, dtype_text
from collalgo.errors import MismatchError

#: By call, what is counted and what to do.
WORDS = {
    "alltoallv": ("rows", "pass counts and receive_counts that agree"),
    "alltoall": ("elements", "pass out with arrays of the shapes that are sent"),
}


def agreed_counts(
    runner: Any,
    sent: Sequence[int],
    received: Sequence[int],
    timeout: float | None,
    call: str = "alltoallv",
    like: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """The rows that each rank sends to each, which all ranks exchange.

    Parameters
    ----------
    runner
        The runner of the communicator.
    sent, received
        The rows that this rank sends to each rank, and receives from each.
    timeout
        The seconds to wait for the others.
    call
        The name of the call.
    like
        As of :func:`exchanged_counts`.

    Raises
    ------
    MismatchError
        On all ranks, if two differ in the number of rows from one to the other.
    """
    size = runner.size
    mine = [
        count for one in (sent, received) for count in check_counts(one, size, call)
    ]
    both = exchanged_counts(runner, mine, call, timeout, like)
    all_sent, all_received = both[:, :size], both[:, size:].T
    if (all_sent != all_received).any():
        source, target = map(int, np.argwhere(all_sent != all_received)[0])
        what, advice = WORDS[call]
        raise _mismatch(
            runner,
            call,
            f"rank {source} sends {all_sent[source, target]} {what} "
            f"to rank {target}, which expects {all_received[source, target]}; {advice}",
        )
    return np.ascontiguousarray(all_sent)


def exchanged_counts(
    runner: Any,
    counts: Sequence[int],
    call: str,
    timeout: float | None,
    like: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """The counts of each rank, in rows of a table that all ranks get.

    Parameters
    ----------
    runner
        The runner of the communicator.
    counts
        The counts of this rank, on each rank the same number of them.
    call
        The name of the call.
    timeout
        The seconds to wait for the others.
    like
        An array of a call in which not all ranks exchange data afterwards: its dtype
        and the elements of a row must be equal on all ranks.

    Raises
    ------
    MismatchError
        On all ranks, if two of these arrays differ.
    """
    alike = [] if like is None else [dtype_code(like.dtype), row_size(like)]
    found = runner.exchange(np.array([*alike, *counts], np.int64), call, timeout)
    differing = np.argwhere(found[:, : len(alike)] != found[0, : len(alike)])
    if len(differing):
        rank = int(differing[0, 0])
        ours, its = _unlike(*found[[rank, 0], :2].tolist())
        raise _mismatch(
            runner, call, f"rank {rank} passed {ours} but rank 0 passed {its}"
        )
    table: NDArray[np.int64] = found[:, len(alike) :]
    return table


def _unlike(one: list[int], other: list[int]) -> tuple[str, str]:
    """Two arrays in words, with what to do, by their dtypes and elements of a row."""
    if one[0] != other[0]:
        advice = "every rank must pass the same dtype"
        return dtype_text(one[0]), f"{dtype_text(other[0])}; {advice}"
    ours, its = (f"rows of {counted(each[1], 'element')}" for each in (one, other))
    return ours, f"{its}; every rank must pass rows of the same length"


def _mismatch(runner: Any, call: str, words: str) -> MismatchError:
    """The error of the latest call."""
    number = runner.call_number
    return MismatchError(
        f"{call} #{number}: {words}",
        rank=runner.rank,
        sequence=number,
        collective=call,
    )


class AllShapes(NamedTuple):
    """The shapes of the arrays that each rank has for each.

    Attributes
    ----------
    lengths : ndarray of int
        The lengths of the axes, from rank i to rank j in ``[i, j]``; after the last
        axis -1.
    """

    lengths: NDArray[np.int64]

    def to(self, rank: int) -> list[tuple[int, ...]]:
        """The shapes of the arrays for a rank."""
        return [tuple(row[row >= 0].tolist()) for row in self.lengths[:, rank]]

    @property
    def elements(self) -> NDArray[np.int64]:
        """The numbers of elements."""
        lengths = np.where(self.lengths < 0, 1, self.lengths)
        found: NDArray[np.int64] = lengths.prod(axis=-1)
        return found


def all_shapes(
    runner: Any, shapes: Sequence[tuple[int, ...]], call: str, timeout: float | None
) -> AllShapes:
    """The shapes of the arrays for all ranks, which all exchange.

    Parameters
    ----------
    runner
        The runner of the communicator.
    shapes
        The shapes of the arrays that this rank has for each.
    call
        The name of the call.
    timeout
        The seconds to wait for the others.
    """
    axes = max(map(len, shapes))
    most = int(runner.exchange(np.array([axes]), call, timeout).max())
    mine = np.full((runner.size, most), -1, np.int64)
    for row, shape in zip(mine, shapes, strict=True):
        row[: len(shape)] = shape
    return AllShapes(runner.exchange(mine, call, timeout))
