"""How requests end: which are over, their statuses, their values and their errors."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from collalgo.integrations.as_mpi4py.message_operations import note_test
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.statuses import Status


def active(requests: Sequence[Any]) -> list[int]:
    """The places of the requests that wait for something."""
    return [
        place for place, request in enumerate(requests) if request.operation is not None
    ]


def over(requests: Sequence[Any], places: Sequence[int], most: int) -> list[int]:
    """The first of some places whose requests are over; without any, note a test."""
    found = (place for place in places if requests[place].is_over())
    first = [*islice(found, most)]
    if places and not first:
        note_test([requests[place].operation for place in places])
    return first


def all_over(requests: Sequence[Any]) -> bool:
    """Whether all are over; if not, note a test of the first that is not."""
    waiting = next((one.operation for one in requests if not one.is_over()), None)
    if waiting is not None:
        note_test([waiting])
    return waiting is None


def all_taken(
    requests: Sequence[Any], places: Sequence[int], statuses: Any
) -> list[Any]:
    """End some requests: their values; then raise the first error."""
    fill_all(statuses, [requests[place].operation for place in places])
    values, errors = [], []
    for place in places:
        try:
            values.append(requests[place].take())
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return values


def taken(operation: Operation, status: Any = None) -> Any:
    """End a completed operation; return its value."""
    if status is not None:
        fill(status, operation)
    operation.free()
    if operation.error is not None:
        raise operation.error
    return operation.value


def fill(status: Any, operation: Operation | None) -> None:
    """Fill in a status, if there is one."""
    if status is None:
        return
    if operation is None:
        status.clear()
        return
    code = int(getattr(operation.error, "error_code", 0))
    status.set(*operation.envelope, error=code, cancelled=operation.is_cancelled)


def fill_all(statuses: Any, operations: Sequence[Operation | None]) -> None:
    """Fill in the statuses of a list, and extend it if it is too short."""
    if statuses is None:
        return
    while isinstance(statuses, list) and len(statuses) < len(operations):
        statuses.append(Status())
    for status, operation in zip(statuses, operations, strict=False):
        fill(status, operation)
