"""Waits for ranks whose program has ended, which send and receive nothing more."""

from collections.abc import Iterable
from typing import Any

from collalgo.comm.call_text import EXCHANGE
from collalgo.integrations.as_mpi4py.errors import MpiException
from collalgo.integrations.as_mpi4py.message_operations import OfMessages

#: The name of the last call of a program, by which the ranks wait for each other.
FINALIZE = "MPI_Finalize"


class FinalizedRanks:
    """The ranks of this host that wait for the others in their last call.

    Parameters
    ----------
    world
        The communicator of all ranks.
    """

    def __init__(self, world: Any):
        self._world, self._known = world, set[int]()

    def end(self, operations: Iterable[OfMessages]) -> None:
        """End waits for ranks that had ended before the last look, too.

        Until the second look what they had sent arrives.
        """
        now = self._found()
        for operation in operations:
            others = {*operation.others} - {self._world.rank}
            if others and others <= now & self._known:
                what = f"rank {min(others)} of the world has called {FINALIZE}"
                text = f"{operation.purpose} cannot complete: {what}"
                operation.lose(MpiException("ERR_PROC_FAILED", text))
        self._known = now

    def _found(self) -> set[int]:
        shared = self._world._runner.context.shared
        return {
            rank
            for place, rank in enumerate(shared.members)
            if (last := shared.call(place)) and last["algorithm"] == EXCHANGE + FINALIZE
        }
