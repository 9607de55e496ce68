"""Requests: wait for operations, one, all, any or some of them."""

from collections.abc import Callable, Sequence
from typing import Any

from collalgo.integrations.as_mpi4py.completions import (
    active,
    all_over,
    all_taken,
    fill,
    fill_all,
    over,
    taken,
)
from collalgo.integrations.as_mpi4py.constants import UNDEFINED
from collalgo.integrations.as_mpi4py.handles import Handle, State, constant
from collalgo.integrations.as_mpi4py.message_operations import note_test, wait_for_any
from collalgo.integrations.as_mpi4py.operations import Operation


class RequestState(State):
    """An operation that was started, or that can be started.

    Attributes
    ----------
    operation : Operation or None
        What it waits for; None if a persistent request was not started.
    start
        Starts a persistent request.
    """

    def __init__(
        self,
        operation: Operation | None = None,
        start: Callable[[], Operation] | None = None,
    ):
        super().__init__()
        self.operation, self.start = operation, start


class Request(Handle):
    """An operation that was started; ``MPI.Request``."""

    null_name, error_name = "REQUEST_NULL", "ERR_REQUEST"

    @classmethod
    def of(cls, operation: Operation) -> Any:
        """The request of an operation."""
        return cls.of_state(RequestState(operation))

    @classmethod
    def _fits(cls, handle: Any) -> bool:
        if not super()._fits(handle) or cls.kind is cls or not handle:
            return super()._fits(handle)
        plain = next(base for base in cls.__mro__ if base in KINDS)
        return isinstance(handle, plain)

    @property
    def operation(self) -> Operation | None:
        """What it waits for, if it does."""
        return self._state.operation if self._state is not None else None

    def is_over(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.operation is None or self.operation.is_over()

    def take(self, status: Any = None) -> Any:
        """End a request whose operation has completed; return its value."""
        operation = self.operation
        if operation is None:
            fill(status, None)
            return None
        if self._state.start is not None:
            self._state.operation = None
        else:
            self._state = None
        return taken(operation, status)

    def wait(self, status: Any = None) -> Any:
        """Wait until the operation has completed; return its value."""
        if self.operation is not None:
            self.operation.wait()
        return self.take(status)

    def test(self, status: Any = None) -> tuple[bool, Any]:
        """Whether the operation has completed, and its value."""
        if not self.is_over():
            note_test([self._state.operation])
            return False, None
        return True, self.take(status)

    def Wait(self, status: Any = None) -> bool:
        """Wait until the operation has completed."""
        Request.wait(self, status)  # which a class of the program may replace
        return True

    def Test(self, status: Any = None) -> bool:
        """Whether the operation has completed."""
        return Request.test(self, status)[0]

    def Get_status(self, status: Any = None) -> bool:
        """Whether the operation has completed; the request remains valid."""
        if not self.is_over():
            note_test([self._state.operation])
            return False
        fill(status, self.operation)
        return True

    get_status = Get_status

    def Cancel(self) -> None:
        """Give up the operation, if that is still possible; it must be waited for."""
        _ = self.state
        if self.operation is not None:
            self.operation.cancel()

    cancel = Cancel

    # ---- several

    @classmethod
    def waitany(cls, requests: Sequence[Any], status: Any = None) -> tuple[int, Any]:
        """Wait until one has completed: its index or UNDEFINED, and its value."""
        places = active(requests)
        if not places:
            fill(status, None)
            return UNDEFINED, None
        wait_for_any([requests[place].operation for place in places])
        place = next(place for place in places if requests[place].is_over())
        return place, requests[place].take(status)

    @classmethod
    def testany(
        cls, requests: Sequence[Any], status: Any = None
    ) -> tuple[int, bool, Any]:
        """The index of a completed one or UNDEFINED, the flag, and its value."""
        places = active(requests)
        if not places:
            fill(status, None)
            return UNDEFINED, True, None
        for place in over(requests, places, 1):
            return place, True, requests[place].take(status)
        return UNDEFINED, False, None

    @classmethod
    def waitall(cls, requests: Sequence[Any], statuses: Any = None) -> list[Any]:
        """Wait until all are over: their values."""
        for request in requests:
            if request.operation is not None:
                request.operation.wait()
        return all_taken(requests, range(len(requests)), statuses)

    @classmethod
    def testall(
        cls, requests: Sequence[Any], statuses: Any = None
    ) -> tuple[bool, list[Any] | None]:
        """Whether all are over, and their values."""
        if not all_over(requests):
            return False, None
        return True, all_taken(requests, range(len(requests)), statuses)

    @classmethod
    def waitsome(
        cls, requests: Sequence[Any], statuses: Any = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Wait until some are over: their places and values; None without requests."""
        if places := active(requests):
            wait_for_any([requests[place].operation for place in places])
        return cls.testsome(requests, statuses)

    @classmethod
    def testsome(
        cls, requests: Sequence[Any], statuses: Any = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """The places and the values of those that are over; None without requests."""
        places = active(requests)
        if not places:
            return None, None
        found = over(requests, places, len(places))
        return found, all_taken(requests, found, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Any], status: Any = None) -> int:
        """Wait until one has completed; return its index, or UNDEFINED."""
        return Request.waitany(requests, status)[0]

    @classmethod
    def Testany(cls, requests: Sequence[Any], status: Any = None) -> tuple[int, bool]:
        """The index of a completed one or UNDEFINED, and the flag."""
        return Request.testany(requests, status)[:2]

    @classmethod
    def Waitall(cls, requests: Sequence[Any], statuses: Any = None) -> bool:
        """Wait until all are over."""
        Request.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(cls, requests: Sequence[Any], statuses: Any = None) -> bool:
        """Whether all are over."""
        return Request.testall(requests, statuses)[0]

    @classmethod
    def Waitsome(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        """Wait until some are over: their places; None without requests."""
        return Request.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        """The places of those that are over; None without requests."""
        return Request.testsome(requests, statuses)[0]

    # ---- the same without an end of the requests

    @classmethod
    def Get_status_any(
        cls, requests: Sequence[Any], status: Any = None
    ) -> tuple[int, bool]:
        """As :meth:`Testany`; the requests stay."""
        places = active(requests)
        if not places:
            fill(status, None)
            return UNDEFINED, True
        for place in over(requests, places, 1):
            fill(status, requests[place].operation)
            return place, True
        return UNDEFINED, False

    @classmethod
    def Get_status_all(cls, requests: Sequence[Any], statuses: Any = None) -> bool:
        """As :meth:`Testall`; the requests stay."""
        is_over = all_over(requests)
        if is_over:
            fill_all(statuses, [request.operation for request in requests])
        return is_over

    @classmethod
    def Get_status_some(cls, requests: Sequence[Any], statuses: Any = None) -> Any:
        """As :meth:`Testsome`; the requests stay."""
        places = active(requests)
        found = over(requests, places, len(places))
        if places:
            fill_all(statuses, [requests[place].operation for place in found])
        return found if places else None

    get_status_any, get_status_all = Get_status_any, Get_status_all
    get_status_some = Get_status_some


#: The kinds of requests that programs may have.
KINDS: list[type[Request]] = [Request]

REQUEST_NULL = constant("REQUEST_NULL", Request())
