"""A function that runs on each rank of a job, and the failures of ranks."""

import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from collalgo.bootstrap.context import Context
from collalgo.comm.communicator import Communicator
from collalgo.comm.current import belonging
from collalgo.comm.failures import reason_of
from collalgo.errors import PeerFailed

#: Limit of the ranks that are started here, more than any host has room for.
MAX_RANKS = 1 << 20


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


class WorldRendezvous(Protocol):
    """Connects all ranks of a job as a world."""

    def connect(self, name: str, rank: int, members: Sequence[int], /) -> Context:
        """Connect as a rank; the name is empty."""


class RankFunction(NamedTuple):
    """The function of a job, its number of ranks and the timeout of its calls."""

    function: Callable[[Communicator], object]
    size: int
    timeout: float | None

    def run(self, rendezvous: WorldRendezvous, rank: int) -> object:
        """Connect as ``rank`` and call the function; its result."""
        context = rendezvous.connect("", rank, range(self.size))
        with Communicator(context, self.timeout) as comm, belonging(comm):
            try:
                return self.function(comm)
            except BaseException as error:
                comm.abort(reason_of(error))
                raise


def raise_first(failures: list[Failure]) -> None:
    """Raise the first failure with a cause of its own, not that of another rank."""
    if failures:
        first = next(
            (f for f in failures if not isinstance(f.error, PeerFailed)), failures[0]
        )
        raise first.error from RankTraceback(first.rank, first.text)
