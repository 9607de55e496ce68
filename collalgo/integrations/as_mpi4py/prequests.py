"""Requests that can be started again and again, also of messages in parts."""

from collections.abc import Callable, Sequence
from typing import Any

from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.requests import KINDS, Request, RequestState


class Parts(Operation):
    """A partitioned message: its partitions become ready one by one.

    Parameters
    ----------
    send
        Sends the message.
    number
        The number of parts.
    """

    def __init__(self, send: Any, number: int):
        self._send, self._missing = send, set(range(number))
        self._sent: Operation | None = None

    def ready(self, part: int) -> None:
        """Mark a partition as ready."""
        if part not in self._missing:
            fail(
                "ERR_ARG", f"partition {part} is out of range, or already marked ready"
            )
        self._missing.remove(part)
        if not self._missing:
            self._sent = self._send()

    def is_over(self) -> bool:
        """Whether the message was sent."""
        return self._sent is not None and self._sent.is_over()

    def wait(self) -> None:
        """Wait until the message was sent."""
        if self._sent is None:
            fail(
                "ERR_PENDING",
                f"partitions {sorted(self._missing)} are not ready; call Pready",
            )
        self._sent.wait()
        self.error = self._sent.error


class Prequest(Request):
    """An operation that can be started again and again; ``MPI.Prequest``."""

    @classmethod
    def of_start(cls, start: Callable[[], Operation]) -> "Prequest":
        """The request of what starts an operation."""
        made: Prequest = cls.of_state(RequestState(start=start))
        return made

    def Start(self) -> None:
        """Start the operation."""
        state = self.state
        if state.start is None or state.operation is not None:
            fail("ERR_REQUEST", "this request is not persistent, or has been started")
        state.operation = state.start()

    @classmethod
    def Startall(cls, requests: Sequence["Prequest"]) -> None:
        """Start several operations."""
        for request in requests:
            request.Start()

    # ---- partitioned messages

    def Pready(self, partition: int) -> None:
        """Report that a part may be sent."""
        self._active().ready(partition)

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Report that the parts of a range, with its end, may be sent."""
        self.Pready_list(range(partition_low, partition_high + 1))

    def Pready_list(self, partitions: Any) -> None:
        """Report that some parts may be sent."""
        for partition in partitions:
            self.Pready(partition)

    def Parrived(self, partition: int) -> bool:
        """Whether a part has come: all come together."""
        if partition < 0:
            fail("ERR_ARG", f"partition {partition} is out of range")
        return self.operation is not None and self.operation.is_over()

    def _active(self) -> Any:
        operation = self.state.operation
        if not isinstance(operation, Parts):
            fail("ERR_REQUEST", "this is not a started partitioned send")
        return operation


KINDS.append(Prequest)
