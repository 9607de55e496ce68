"""The part of a rank in a negotiated bucket, in a thread of its own."""

import json
import time
from threading import Event, Thread
from typing import Any, Protocol

import numpy as np

from collalgo.base.finalizers import Lock, serving
from collalgo.base.threads import start
from collalgo.comm.bucket import Batch, Intervals
from collalgo.comm.current import runner_of
from collalgo.comm.negotiation import Coordinator, Failure, Signature
from collalgo.comm.point_to_point.calls import Envelope
from collalgo.comm.types import OpLike
from collalgo.engine.arrays import Array, bounds
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.dtypes import dtype_description
from collalgo.engine.reduction import check_in_place
from collalgo.errors import (
    CollalgoError,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
)

#: The tags of messages to rank 0, and of its answers.
REQUEST, ANSWER = 0, 1

#: Seconds of a wait for messages, after which late ranks are searched for.
POLL_SECONDS = 0.5

ERRORS: dict[str, type[CollalgoError]] = {
    "mismatch": MismatchError,
    "timeout": CollectiveTimeout,
    "peer": PeerFailed,
}


class OwnCommunicator(Protocol):
    """A communicator, as a negotiated bucket uses it."""

    rank: int
    size: int

    @property
    def timeout(self) -> float:
        """Seconds that calls wait for other ranks."""

    def isend(self, buf: Any, to: int, tag: int = 0) -> Any: ...

    def recv(self, buf: Any, source: int | None, tag: int = 0) -> Any: ...

    def probe(
        self, source: int | None, tag: int = 0, *, timeout: float | None = None
    ) -> Envelope: ...

    def iprobe(self, source: int | None, tag: int = 0) -> Envelope | None: ...

    def close(self) -> None: ...


class JsonMessages:
    """Messages of JSON between the ranks of a communicator; one thread receives."""

    def __init__(self, comm: OwnCommunicator):
        self._comm = comm
        self._sent: list[Any] = []  # which the receiver has not begun to read
        self._lock = Lock()

    def send(self, content: dict[str, Any], to: int, tag: int) -> None:
        """Send a message."""
        buf = np.frombuffer(json.dumps(content).encode(), np.uint8)
        with self._lock:
            self._sent = [each for each in self._sent if not each.done()]
            self._sent.append(self._comm.isend(buf, to, tag))

    def receive(
        self, source: int | None, tag: int, timeout: float
    ) -> tuple[int, dict[str, Any]] | None:
        """The next message and its sender; None after the timeout."""
        found = self._find(source, tag, timeout)
        if found is None:
            return None
        buf = np.empty(found.size, np.uint8)
        self._comm.recv(buf, found.source, tag)
        return found.source, json.loads(buf.tobytes())

    def _find(self, source: int | None, tag: int, timeout: float) -> Envelope | None:
        if timeout <= 0:
            return self._comm.iprobe(source, tag)
        try:
            return self._comm.probe(source, tag, timeout=timeout)
        except CollectiveTimeout:
            return None


class Pending:
    """An array that waits until all ranks have added one of its name."""

    def __init__(self, array: Array):
        self.array = array
        self.batch: Batch | None = None  # with which it is reduced
        self.begun = Event()  # or failed


class Negotiator:
    """The arrays of one rank, and the decisions of rank 0.

    Parameters
    ----------
    comm
        A communicator for this alone.
    op
        See :func:`collalgo.allreduce`.
    limit
        Bytes in one call; a larger array has a call of its own.
    stall_seconds
        Seconds after which ranks that others wait for are reported.

    Attributes
    ----------
    error : BaseException or None
        The reason why no further array can be reduced.
    thread : Thread
        Ends once all ranks have left.
    """

    def __init__(
        self, comm: OwnCommunicator, op: OpLike, limit: int, stall_seconds: float
    ):
        check_in_place(op, "bucket")
        self._comm, self._op = comm, op
        self._messages = JsonMessages(comm)
        self._pending: dict[str, Pending] = {}
        self._taken = Intervals()
        self._lock = Lock()
        self._looked = time.monotonic()
        self.error: BaseException | None = None
        self._coordinator = (
            Coordinator(comm.size, limit, stall_seconds, comm.timeout)
            if comm.rank == 0
            else None
        )
        self.thread = Thread(target=self._serve, name="collalgo bucket", daemon=True)
        start(self.thread)

    def add(self, array: Array, name: str) -> Pending:
        """Add an array, and report it to rank 0.

        Raises
        ------
        ValueError
            If the name is in use, or the array shares memory with one that waits.
        """
        pending = Pending(array)
        with self._lock:
            self.check()
            self._check_free(array, name)
            self._pending[name] = pending
            self._taken.add(*bounds(array), id(pending))
        about = [name, _place_and_dtype(array), array.size, array.nbytes]
        self._messages.send({"add": about}, 0, REQUEST)
        return pending

    def _check_free(self, array: Array, name: str) -> None:
        if name in self._pending:
            raise ValueError(
                f"allreduce: {name!r} is in this bucket already, and not reduced yet; "
                "wait for it, or take another name"
            )
        others = {id(each): each for each in self._pending.values()}
        for number in self._taken.across(*bounds(array)):
            if np.shares_memory(array, others[number].array):
                raise ValueError(
                    f"allreduce: {name!r} shares memory with an array in this bucket; "
                    "wait for that first"
                )

    def check(self) -> None:
        """Raise the error, if the bucket has failed."""
        if self.error is not None:
            raise self.error

    def leave(self, reason: str) -> None:
        """Report to rank 0 that no arrays follow, with the reason of an error."""
        if self.error is None:
            self._messages.send({"leave": reason}, 0, REQUEST)

    @serving()
    def _serve(self) -> None:
        """Begin the calls that rank 0 decides on, until all ranks have left."""
        try:
            while self._coordinate() if self._coordinator else self._follow():
                pass
        except BaseException as error:
            self._fail(error)

    def _follow(self) -> bool:
        """Take an answer of rank 0; whether further answers follow."""
        found = self._messages.receive(0, ANSWER, POLL_SECONDS)
        return found is None or self._take(found[1])

    def _coordinate(self) -> bool:
        """Take a message of a rank, and answer all ranks; whether more follow."""
        coordinator = self._coordinator
        assert coordinator is not None
        left = coordinator.seconds_left(time.monotonic())
        longest = POLL_SECONDS if left is None else min(left, POLL_SECONDS)
        found = self._messages.receive(None, REQUEST, longest)
        now = time.monotonic()
        if found is not None:
            _note(coordinator, *found, now)
        if now - self._looked >= POLL_SECONDS:
            self._looked = now
            coordinator.look(now)
        answers: list[dict[str, Any]] = [
            {"reduce": names} for names in coordinator.calls(now)
        ]
        if coordinator.failure is not None:
            answers.append({"failure": coordinator.failure})
        elif coordinator.ended:
            answers.append({"end": True})
        return all(self._answer(each) for each in answers)

    def _answer(self, content: dict[str, Any]) -> bool:
        """Send an answer to all ranks; whether further ones follow."""
        for rank in range(1, self._comm.size):
            self._messages.send(content, rank, ANSWER)
        return self._take(content)

    def _take(self, content: dict[str, Any]) -> bool:
        """Act on an answer of rank 0; whether further ones follow."""
        if names := content.get("reduce"):
            self._begin(names)
        elif failure := content.get("failure"):
            self._fail(self._error_of(Failure(*failure)))
        return "reduce" in content

    def _begin(self, names: list[str]) -> None:
        """Begin the call that reduces some arrays."""
        with self._lock:
            found = [self._pending.pop(name) for name in names]
            for each in found:
                self._taken.remove(*bounds(each.array), id(each))
        try:
            batch = self._batch(found)
            for each in found:
                each.batch = batch
        except BaseException as error:
            self.error = error
            raise
        finally:
            for each in found:
                each.begun.set()

    def _batch(self, found: list[Pending]) -> Batch:
        """The call that reduces some arrays, begun."""
        batch = Batch(found[0].array)
        for each in found:
            batch.add(each.array)
        batch.start(runner_of(self._comm), self._op)
        return batch

    def _error_of(self, failure: Failure) -> CollalgoError:
        return ERRORS[failure.kind](
            failure.text, rank=self._comm.rank, missing=tuple(failure.missing)
        )

    def _fail(self, error: BaseException) -> None:
        """Fail the arrays that wait, and those that are added from now on."""
        with self._lock:
            self.error = error
            found, self._pending = list(self._pending.values()), {}
        for each in found:
            each.begun.set()


def _place_and_dtype(array: Array) -> str:
    """The dtype of an array, and whether it is on a device."""
    on_device = " on a device" if isinstance(array, Shadow) else ""
    return dtype_description(array.dtype) + on_device


def _note(
    coordinator: Coordinator, rank: int, content: dict[str, Any], now: float
) -> None:
    """Handle the message of a rank."""
    if "add" in content:
        name, dtype, count, nbytes = content["add"]
        coordinator.add(rank, name, Signature(dtype, count), nbytes, now)
    else:
        coordinator.leave(rank, content["leave"])
