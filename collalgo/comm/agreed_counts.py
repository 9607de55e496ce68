"""The counts of calls in which each rank passes only its own counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.engine.arrays import check_counts
from collalgo.errors import MismatchError


def agreed_counts(
    runner: Any,
    sent: Sequence[int],
    received: Sequence[int],
    timeout: float | None,
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

    Raises
    ------
    MismatchError
        On all ranks, if two differ in the number of rows from one to the other.
    """
    size, call = runner.size, "alltoallv"
    mine = [
        count for one in (sent, received) for count in check_counts(one, size, call)
    ]
    both = runner.exchange(np.array(mine, np.int64), call, timeout)
    all_sent, all_received = both[:, :size], both[:, size:].T
    if (all_sent != all_received).any():
        source, target = map(int, np.argwhere(all_sent != all_received)[0])
        number = runner.call_number
        raise MismatchError(
            f"{call} #{number}: rank {source} sends {all_sent[source, target]} rows to "
            f"rank {target}, which expects {all_received[source, target]}; pass counts "
            "and receive_counts that agree",
            rank=runner.rank,
            sequence=number,
            collective=call,
        )
    return np.ascontiguousarray(all_sent)
