"""A function that runs on each rank of a job, and the failures of ranks."""

import traceback
from collections.abc import Callable
from typing import NamedTuple

from collalgo.comm.communicator import Communicator
from collalgo.comm.current import belonging
from collalgo.comm.reasons import reason_of
from collalgo.errors import InvalidElsewhere, OpFailed, PeerFailed

#: The errors of a rank for what another rank has done, which has an error of its own.
OF_OTHERS = (PeerFailed, OpFailed, InvalidElsewhere)


class RankTraceback(Exception):
    """Cause of an exception from another thread or process: its rank and traceback."""

    def __init__(self, rank: int, text: str):
        super().__init__(f"\n\nraised on rank {rank}:\n{text}")
        self.rank = rank


class Failure(NamedTuple):
    """An exception of a rank, with its traceback as text."""

    rank: int
    error: BaseException
    text: str


def failure_of(rank: int, error: BaseException) -> Failure:
    """The failure of a rank, by the exception that is being handled."""
    return Failure(rank, error, traceback.format_exc())


def run_as_rank(
    comm: Communicator, function: Callable[[Communicator], object]
) -> object:
    """Call a function with the communicator of its rank, and close that: the result."""
    with comm, belonging(comm):
        try:
            return function(comm)
        except BaseException as error:
            comm.abort(reason_of(error), with_groups=True)
            raise


def raise_first(failures: list[Failure]) -> None:
    """Raise the first failure with a cause of its own, not that of another rank."""
    if failures:
        own = (f for f in failures if not isinstance(f.error, OF_OTHERS))
        first = next(own, failures[0])
        raise first.error from RankTraceback(first.rank, first.text)
