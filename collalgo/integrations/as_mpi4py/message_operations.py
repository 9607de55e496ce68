"""Messages from and to other ranks, from their beginning to their end."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.point_to_point.probing import fill
from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG, ERRORS
from collalgo.integrations.as_mpi4py.errors import MpiException, fail
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.operations import Operation, as_error

#: Where and how a message goes: an array for some bytes, and what follows.
Target = Callable[[int], tuple[Bytes, Callable[[], None] | None]]

#: The number of tests of an operation until one looks for ranks that have ended.
TESTS = 100

NO_BYTES: Bytes = np.empty(0, np.uint8)


class OfMessages(Operation):
    """A message from or to another rank.

    Parameters
    ----------
    matching
        The messages of this process.
    others
        The ranks of the world one of which must live until it has completed.
    """

    def __init__(self, matching: Any, others: Sequence[int]):
        self.matching, self.others = matching, others

    def wait(self) -> None:
        """Wait until it has ended."""
        self.matching.wait(self)

    def give_up(self) -> NoReturn:
        """Raise the error of a wait after the timeout of the world."""
        limit = self.matching.timeout
        fail("ERR_PENDING", f"{self.purpose} did not complete within {limit:g} s")

    def is_late(self, begun: float) -> bool:
        """Whether a wait has lasted longer than the timeout of the world."""
        return bool(time.monotonic() - begun >= self.matching.timeout)

    def messages(self) -> Sequence["OfMessages"]:
        """Itself."""
        return (self,)


class Send(OfMessages):
    """A message to another rank.

    Parameters
    ----------
    matching
        The messages of this process.
    to
        A rank of the world.
    is_awaited
        Whether it ends only when a receive has taken the message.
    """

    def __init__(self, matching: Any, to: int, *, is_awaited: bool = False):
        super().__init__(matching, (to,))
        self.is_awaited = is_awaited

    @property
    def purpose(self) -> str:  # type: ignore[override]
        """What a wait for it was for."""
        return f"a send to rank {self.others[0]} of the world"

    def is_over(self) -> bool:
        """Whether the buffer may be changed."""
        if self.message is not None:
            if not self.message.done():
                self.matching.poll()  # as the other rank may wait for this one
                return False
            self.error, self.message = as_error(self.message.exception(0)), None
        if self.is_awaited and self.error is None:
            self.matching.poll()
            return not self.is_awaited
        return True

    def lose(self, error: BaseException) -> None:
        """End it with the error of another rank, which takes no more of it."""
        self.error, self.is_awaited, self.message = error, False, None


class Receive(OfMessages):
    """A message from another rank.

    Parameters
    ----------
    matching
        The messages of this process.
    others
        The ranks of the world that may send it.
    context, source, tag
        What it takes.
    target
        Where the message goes.
    room
        The most bytes; None for any number.
    finish
        Makes the value, if there is one.
    array
        The contiguous array of ``room`` bytes that is the target, if it is one.
    """

    def __init__(
        self,
        matching: Any,
        others: Sequence[int],
        context: int,
        source: int,
        tag: int,
        target: Target,
        room: int | None = None,
        finish: Callable[[Bytes], Any] | None = None,
        array: NDArray[Any] | None = None,
    ):
        self.matching, self.others = matching, others
        self._target, self._room, self._whole = target, room, array
        self.context, self.source, self.tag = context, source, tag
        self._make = finish
        self._finish: Callable[[], None] | None = None
        self._array: Bytes = NO_BYTES
        self._came = self._over = False

    @property
    def purpose(self) -> str:  # type: ignore[override]
        """What a wait for it was for."""
        source = "any rank" if self.source == ANY_SOURCE else f"rank {self.source}"
        tag = "any tag" if self.tag == ANY_TAG else f"tag {self.tag}"
        return f"a receive from {source} with {tag}"

    def room(self, nbytes: int) -> Bytes:
        """An array for the message; more bytes than fit are received and dropped."""
        if self._room is not None and nbytes > self._room:
            self.error = MpiException(
                ERRORS["ERR_TRUNCATE"],
                f"message truncated: {nbytes} bytes were sent, but the buffer holds "
                f"{self._room}",
            )
        else:
            try:
                self._array, self._finish = self._target(nbytes)
            except Exception as error:  # such as a count beyond the buffer
                self.error = error
        if self.error is not None:
            self._finish, self._array = None, np.empty(nbytes, np.uint8)
        return self._array

    def take(self, data: bytes) -> None:
        """Take a short message."""
        if self._whole is not None and len(data) <= self._whole.nbytes:
            fill(self._whole, data)
        else:
            self.room(len(data))[...] = np.frombuffer(data, np.uint8)
        self._came = True

    def is_over(self) -> bool:
        """Whether the message has come."""
        if self._over:
            return True
        if not self._came and self.message is None:
            self.matching.poll()
        message = self.message
        if message is not None and message.done():
            self.error = self.error or as_error(message.exception(0))
            self._came = True
        if self._came:
            self._end()
        return self._over

    def _end(self) -> None:
        """Give the message to the program, by the thread that waits for it."""
        if self.error is None:
            try:
                if self._finish is not None:
                    self._finish()
                if self._make is not None:
                    self.value = self._make(self._array)
            except Exception as error:
                self.error = error
        self._over = True

    def cancel(self) -> None:
        """Give it up, unless a message was matched."""
        if self.matching.withdraw(self):
            self._over = self.is_cancelled = True

    def lose(self, error: BaseException) -> None:
        """End it with the error of another rank."""
        if self.matching.withdraw(self):
            self.error, self._over = error, True


class Probing(OfMessages):
    """A probe; its value is the message that has arrived.

    Parameters
    ----------
    matching, others, context, source, tag
        As of :class:`Receive`.
    is_taking
        Whether only this probe's message can receive it.
    """

    purpose = "a probe"

    def __init__(
        self,
        matching: Any,
        others: Sequence[int],
        context: int,
        source: int,
        tag: int,
        *,
        is_taking: bool,
    ):
        super().__init__(matching, others)
        self._expected, self._is_taking = (context, source, tag), is_taking

    def is_over(self) -> bool:
        """Whether a message has come."""
        if self.value is None and self.error is None:
            self.value = self.matching.probe(*self._expected, take=self._is_taking)
        return self.value is not None or self.error is not None

    def lose(self, error: BaseException) -> None:
        """End it with the error of another rank."""
        self.error = error


def wait_for_any(operations: Sequence[Operation]) -> None:
    """Wait until one of several operations has ended.

    Raises
    ------
    MPI.Exception
        If all are messages, and the timeout of the world passes.
    """
    looks, begun = 0, time.monotonic()
    messages = [one.messages() for one in operations]
    while not any(one.is_over() for one in operations):
        looks += 1
        if all(messages):
            first = messages[0][0]
            first.matching.pause(None, *operations)
            if first.is_late(begun):
                first.give_up()
        else:
            time.sleep(0 if looks < 200 else 5e-5)


def note_test(operations: Sequence[Operation]) -> None:
    """Note that a test has found none of some operations to have ended.

    One of many such tests looks whether they can still end.
    """
    first = operations[0]
    first.tests += 1
    if first.tests % TESTS == 0:
        for message in first.messages()[:1]:
            message.matching.finalized.end_tested(operations)


#: A send that was over at once.
SENT = Operation()
