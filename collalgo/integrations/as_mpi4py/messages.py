"""Messages that a probe has matched: only their handle can receive them."""

from typing import Any

from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG
from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.handles import Handle, State, constant
from collalgo.integrations.as_mpi4py.message_operations import Receive
from collalgo.integrations.as_mpi4py.operations import Empty, Operation
from collalgo.integrations.as_mpi4py.pickling import object_of, object_target
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.records import Arrival
from collalgo.integrations.as_mpi4py.requests import Request
from collalgo.integrations.as_mpi4py.specs import simple


class MessageState(State):
    """A message that a probe has matched.

    Attributes
    ----------
    comm
        The state of its communicator.
    arrival : Arrival or None
        The message; None for that of no rank.
    """

    def __init__(self, comm: Any, arrival: Arrival | None):
        super().__init__()
        self.comm, self.arrival = comm, arrival


class Message(Handle):
    """A message that a probe has matched; ``MPI.Message``."""

    null_name, error_name = "MESSAGE_NULL", "ERR_REQUEST"

    @classmethod
    def Probe(
        cls,
        comm: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Any = None,
    ) -> Any:
        """Wait for a message of a communicator."""
        return cls(comm.Mprobe(source, tag, status))

    @classmethod
    def Iprobe(
        cls,
        comm: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Any = None,
    ) -> Any:
        """A message of a communicator that has come, or None."""
        found = comm.Improbe(source, tag, status)
        return None if found is None else cls(found)

    probe, iprobe = Probe, Iprobe

    def _receive(self, target: Any, room: int | None, finish: Any) -> Operation:
        """Receive it; the handle is null afterwards."""
        arrival = self.state.arrival
        if self is not MESSAGE_NO_PROC:
            self._state = None
        if arrival is None:
            return Empty()
        matching = PROCESS.matching
        operation = Receive(
            matching, (), 0, arrival.source, arrival.tag, target, room, finish
        )
        matching.deliver(operation, arrival)
        return operation

    def _receive_buffer(self, buf: Any) -> Operation:
        if self.state.arrival is None:
            return self._receive(None, None, None)
        part = simple(buf, writable=True)
        return self._receive(part.target, part.nbytes, None)

    @raises_mpi_exceptions
    def Recv(self, buf: Any, status: Any = None) -> None:
        """Receive it into a buffer."""
        Request.of(self._receive_buffer(buf)).wait(status)

    @raises_mpi_exceptions
    def Irecv(self, buf: Any) -> Any:
        """Receive it into a buffer in the background."""
        return Request.of(self._receive_buffer(buf))

    @raises_mpi_exceptions
    def recv(self, status: Any = None) -> Any:
        """Receive it as an object."""
        return self.irecv().wait(status)

    @raises_mpi_exceptions
    def irecv(self) -> Any:
        """Receive it as an object in the background."""
        return Request.of(self._receive(object_target, None, object_of))

    def Free(self) -> None:
        """Forget the handle."""
        self._state = None


MESSAGE_NULL = constant("MESSAGE_NULL", Message())
MESSAGE_NO_PROC = constant(
    "MESSAGE_NO_PROC", Message.of_state(MessageState(None, None))
)
