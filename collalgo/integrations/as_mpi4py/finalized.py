"""Waits for ranks whose program has ended, which send and receive nothing more."""

from collections.abc import Iterable
from threading import current_thread, enumerate as running
from typing import Any

from collalgo.comm.call_text import EXCHANGE
from collalgo.integrations.as_mpi4py.errors import MpiException
from collalgo.integrations.as_mpi4py.message_operations import OfMessages

#: The name of the last call of a program, by which the ranks wait for each other.
FINALIZE = "MPI_Finalize"

#: How the names of threads of the library begin.
OF_LIBRARY = "collalgo", "mpi4py messages"


def may_send_to_itself() -> bool:
    """Whether the program has another thread, which may send to the one that waits."""
    others = {*running()} - {current_thread()}
    return not all(other.name.startswith(OF_LIBRARY) for other in others)


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
        """End operations whose peers were in their last call at this look and the last.

        Messages that they sent earlier arrive in between.
        """
        now = self._found()
        silent = now & self._known
        own = set[int]() if may_send_to_itself() else {self._world.rank}
        for operation in operations:
            others = {*operation.others}
            if others - own and others <= silent | own:
                what = f"rank {min(others - own)} of the world has called {FINALIZE}"
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
