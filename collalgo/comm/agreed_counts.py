"""The counts of calls in which each rank passes only its own counts.

Calls in the background exchange them in their turn, and then take their ``rest``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.composed import after_exchange
from collalgo.base.units import counted
from collalgo.engine.arrays import row_size
from collalgo.engine.counts import check_counts
from collalgo.engine.dtypes import dtype_code, dtype_text
from collalgo.errors import MismatchError

#: Makes a call with a table of counts of all ranks, and returns its result.
Rest = Callable[[Any], Any]


def _itself(table: Any) -> Any:
    return table


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
    *,
    rest: Rest = _itself,
    at_once: bool = False,
) -> Any:
    """Exchange the rows that each rank sends to each, then return ``rest(table)``.

    In the background None: the exchange and the rest follow there.

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
    like, rest, at_once
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
    rest = partial(_agreed, runner, call, rest)
    return exchanged_counts(
        runner, mine, call, timeout, like, rest=rest, at_once=at_once
    )


def _agreed(runner: Any, call: str, rest: Rest, both: NDArray[np.int64]) -> Any:
    """What a call returns for the counts that all ranks send, and those they expect."""
    size = runner.size
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
    return rest(np.ascontiguousarray(all_sent))


def exchanged_counts(
    runner: Any,
    counts: Sequence[int],
    call: str,
    timeout: float | None,
    like: NDArray[Any] | None = None,
    *,
    rest: Rest = _itself,
    at_once: bool = False,
) -> Any:
    """Exchange the counts of each rank, then return ``rest(table)`` of their rows.

    In the background None: the exchange and the rest follow there.

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
    rest
        Makes the call with the table and returns its result; by default the result is
        the table itself.
    at_once
        As of :func:`after_exchange`.

    Raises
    ------
    MismatchError
        On all ranks, if two of these arrays differ.
    """
    alike = [] if like is None else [dtype_code(like.dtype), row_size(like)]
    mine = np.array([*alike, *counts], np.int64)
    rest = partial(_checked, runner, call, len(alike), rest)
    return after_exchange(runner, mine, call, timeout, rest, at_once)


def _checked(
    runner: Any, call: str, alike: int, rest: Rest, found: NDArray[np.int64]
) -> Any:
    """What a call returns for counts; the first columns must be equal on all ranks."""
    differing = np.argwhere(found[:, :alike] != found[0, :alike])
    if len(differing):
        rank = int(differing[0, 0])
        ours, its = _unlike(*found[[rank, 0], :2].tolist())
        raise _mismatch(
            runner, call, f"rank {rank} passed {ours} but rank 0 passed {its}"
        )
    return rest(found[:, alike:])


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
    runner: Any,
    shapes: Sequence[tuple[int, ...]],
    call: str,
    timeout: float | None,
    rest: Rest,
    at_once: bool,
) -> Any:
    """Exchange the shapes of the arrays for all ranks, then return ``rest(shapes)``.

    In the background None: the exchange and the rest follow there.

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
    rest, at_once
        As of :func:`exchanged_counts`; ``rest`` takes :class:`AllShapes`.
    """
    axes = np.array([max(map(len, shapes))])
    lengths = partial(_all_lengths, runner, shapes, call, timeout, rest)
    return after_exchange(runner, axes, call, timeout, lengths, at_once)


def _all_lengths(
    runner: Any,
    shapes: Sequence[tuple[int, ...]],
    call: str,
    timeout: float | None,
    rest: Rest,
    axes: NDArray[Any],
) -> Any:
    """What a call returns, once all ranks know the numbers of axes of the shapes."""
    most = int(axes.max())
    mine = np.full((runner.size, most), -1, np.int64)
    for row, shape in zip(mine, shapes, strict=True):
        row[: len(shape)] = shape
    return rest(AllShapes(runner.exchange(mine, call, timeout)))
