"""Waits for ranks whose program has ended, which send and receive nothing more."""

import time
from collections.abc import Sequence
from threading import current_thread, enumerate as running
from typing import Any

from collalgo.comm.call_text import EXCHANGE
from collalgo.integrations.as_mpi4py.errors import MpiException
from collalgo.integrations.as_mpi4py.message_operations import OfMessages
from collalgo.integrations.as_mpi4py.operations import Operation

#: The name of the last call of a program, by which the ranks wait for each other.
FINALIZE = "MPI_Finalize"

#: How the names of threads of the library begin.
OF_LIBRARY = "collalgo", "mpi4py messages"

#: Seconds in which the last messages of a rank of another host arrive, and in which a
#: program may test for a message that does not arrive, and then give it up.
ARRIVAL_SECONDS, TEST_SECONDS = 1.0, 2.0


def may_send_to_itself() -> bool:
    """Whether the program has another thread, which may send to the one that waits."""
    others = {*running()} - {current_thread()}
    return not all(other.name.startswith(OF_LIBRARY) for other in others)


class FinalizedRanks:
    """The ranks that wait for the others in their last call.

    Parameters
    ----------
    world
        The communicator of all ranks.
    """

    def __init__(self, world: Any):
        self._world = world

    def end(self, operations: Sequence[Operation]) -> None:
        """End the first of some operations if none can complete any more."""
        if operations and (message := self._hopeless(operations)) is not None:
            self._lose(operations[0], message)

    def end_tested(self, operations: Sequence[Operation]) -> None:
        """The same for operations that a program has tested for some seconds."""
        message, first = self._hopeless(operations), operations[0]
        now = time.monotonic()
        if message is None:
            first.hopeless_since = None
        elif first.hopeless_since is None:
            first.hopeless_since = now
        elif now - first.hopeless_since >= TEST_SECONDS:
            self._lose(first, message)

    def _hopeless(self, operations: Sequence[Operation]) -> OfMessages | None:
        """The message of the first operation that cannot complete, if none can.

        Messages that ranks sent before their last call arrive between this look and the
        last for the same operation.
        """
        first, now = operations[0], self._found()
        silent, first.ended = now & first.ended, now
        if not silent:
            return None
        own = set[int]() if may_send_to_itself() else {self._world.rank}
        found = [
            next((one for one in each.messages() if _waits_for(one, silent, own)), None)
            for each in operations
        ]
        return None if None in found else found[0]

    def _found(self) -> set[int]:
        context = self._world._runner.context
        announced = context.last_calls
        elsewhere = announced.ranks(ARRIVAL_SECONDS) if announced else set[int]()
        return elsewhere | {
            rank
            for place, rank in enumerate(context.shared.members)
            if (last := context.shared.call(place))
            and last["algorithm"] == EXCHANGE + FINALIZE
        }

    def _lose(self, operation: Operation, message: OfMessages) -> None:
        """End an operation by a message of it that cannot complete."""
        rank = min({*message.others} - {self._world.rank} or message.others)
        what = f"rank {rank} of the world has called {FINALIZE}"
        text = f"{message.purpose} cannot complete: {what}"
        operation.lose(MpiException("ERR_PROC_FAILED", text))


def _waits_for(message: OfMessages, ended: set[int], own: set[int]) -> bool:
    """Whether a message needs ranks that have ended, or this one, and no others."""
    others = {*message.others}
    return bool(others - own) and others <= ended | own
