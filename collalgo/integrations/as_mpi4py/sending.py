"""Messages of bytes: their sends in all modes, and their receives."""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from collalgo.integrations.as_mpi4py.completions import taken
from collalgo.integrations.as_mpi4py.constants import (
    ANY_SOURCE,
    ANY_TAG,
    MAX_TAG,
    PROC_NULL,
)
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.message_operations import Receive, Target
from collalgo.integrations.as_mpi4py.operations import Empty, Operation, Several
from collalgo.integrations.as_mpi4py.parts import Part
from collalgo.integrations.as_mpi4py.process import PROCESS

#: The modes of sending: what their names begin with, and whether the sender waits for
#: the receiver, and whether the buffer is copied first.
STANDARD, BUFFERED, SYNCHRONOUS, READY = "", "B", "S", "R"


class Sending:
    """The sends of a communicator of bytes; a mixin of communicators."""

    state: Any

    def send_bytes(
        self, data: NDArray[Any], dest: int, tag: int, mode: str = STANDARD
    ) -> Operation:
        """Send bytes to a rank."""
        state = self.state
        if dest == PROC_NULL:
            return Empty()
        if not 0 <= dest < len(state.remote):
            fail("ERR_RANK", f"rank {dest} is not one of the {len(state.remote)} ranks")
        if not 0 <= tag <= MAX_TAG:
            fail("ERR_TAG", f"tag {tag} is not one of 0 to {MAX_TAG}")
        sent = PROCESS.matching.send(
            state.context,
            state.rank,
            state.remote[dest],
            tag,
            data.copy() if mode == BUFFERED else data,
            until_matched=mode == SYNCHRONOUS,
        )
        if mode != BUFFERED:
            return sent
        if not sent.is_over():
            PROCESS.keep(sent)
        return Operation()

    def send_beside(
        self, received: Operation, data: NDArray[Any], dest: int, tag: int
    ) -> Operation:
        """Send bytes beside a receive, which is given up if they cannot be sent."""
        try:
            return Several([self.send_bytes(data, dest, tag), received])
        except BaseException:
            received.cancel()
            raise

    def receive_bytes(
        self,
        source: int,
        tag: int,
        target: Target,
        room: int | None = None,
        finish: Callable[[Bytes], Any] | None = None,
        array: NDArray[Any] | None = None,
    ) -> Operation:
        """Receive bytes from a rank; see :class:`Receive`."""
        if source == PROC_NULL:
            return Empty()
        state, matching = self.state, PROCESS.matching
        senders = senders_of(state, source, tag)
        operation = Receive(
            matching, senders, state.context, source, tag, target, room, finish, array
        )
        matching.receive(operation)
        return operation

    def receive_part(self, part: Part, source: int, tag: int) -> Operation:
        """Receive a part from a rank."""
        return self.receive_bytes(
            source, tag, part.target, part.nbytes, array=part.array
        )


def senders_of(state: Any, source: int, tag: int) -> Sequence[int]:
    """The ranks of the world that may send what a receive expects, which is checked."""
    if tag != ANY_TAG and not 0 <= tag <= MAX_TAG:
        fail("ERR_TAG", f"tag {tag} is not one of 0 to {MAX_TAG}")
    remote: Sequence[int] = state.remote
    if source == ANY_SOURCE:
        return remote
    if not 0 <= source < len(remote):
        fail("ERR_RANK", f"rank {source} is not one of the {len(remote)} ranks")
    return (remote[source],)


def finished(operation: Operation, status: Any = None) -> Any:
    """Wait for an operation: its value."""
    operation.wait()
    return taken(operation, status)
