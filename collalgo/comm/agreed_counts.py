"""The counts of calls in which each rank passes only its own counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.engine.counts import check_counts
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

    Raises
    ------
    MismatchError
        On all ranks, if two differ in the number of rows from one to the other.
    """
    size = runner.size
    mine = [
        count for one in (sent, received) for count in check_counts(one, size, call)
    ]
    both = runner.exchange(np.array(mine, np.int64), call, timeout)
    all_sent, all_received = both[:, :size], both[:, size:].T
    if (all_sent != all_received).any():
        source, target = map(int, np.argwhere(all_sent != all_received)[0])
        number = runner.call_number
        what, advice = WORDS[call]
        raise MismatchError(
            f"{call} #{number}: rank {source} sends {all_sent[source, target]} {what} "
            f"to rank {target}, which expects {all_received[source, target]}; {advice}",
            rank=runner.rank,
            sequence=number,
            collective=call,
        )
    return np.ascontiguousarray(all_sent)


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
