"""What a request waits for: a message, a call in the background, or several."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERRORS,
    PROC_NULL,
)
from collalgo.integrations.as_mpi4py.errors import MpiException, as_mpi_exception
from collalgo.integrations.as_mpi4py.memory import Bytes

#: Where and how a message goes: an array for some bytes, and what follows.
Target = Callable[[int], tuple[Bytes, Callable[[], None] | None]]


class Operation:
    """Something that ends.

    Attributes
    ----------
    envelope : (int, int, int)
        The source, the tag and the bytes of what was received.
    error : BaseException or None
        Why it has failed.
    value : object
        What a call on objects returns.
    message
        The message or call of the library that it waits for, if there is one.
    """

    error: BaseException | None = None
    envelope: tuple[int, int, int] = (ANY_SOURCE, ANY_TAG, 0)
    value: Any = None
    message: Any = None
    is_cancelled = False

    def is_over(self) -> bool:
        """Whether it has ended, with a result or an error."""
        return True

    def wait(self) -> None:
        """Wait until it has ended."""

    def cancel(self) -> None:
        """Give it up, if that is still possible."""

    def free(self) -> None:
        """Take note that its request has ended."""


class Empty(Operation):
    """A message from or to no rank."""

    envelope = (PROC_NULL, ANY_TAG, 0)


class Send(Operation):
    """A message to another rank.

    Parameters
    ----------
    matching
        The messages of this process.
    is_awaited
        Whether it ends only when a receive has taken the message.
    """

    def __init__(self, matching: Any, *, is_awaited: bool):
        self._matching, self.is_awaited = matching, is_awaited

    def is_over(self) -> bool:
        """Whether the buffer may be changed."""
        if self.message is not None:
            if not self.message.done():
                return False
            self.error = as_error(self.message.exception(0))
        if self.is_awaited and self.error is None:
            self._matching.poll()
            return not self.is_awaited
        return True

    def wait(self) -> None:
        """Wait until the buffer may be changed."""
        if self.message is not None:
            self._matching.wait(self.message.done, self.message)
        self._matching.wait(self.is_over)


class Receive(Operation):
    """A message from another rank.

    Parameters
    ----------
    matching
        The messages of this process.
    context, source, tag
        What it takes.
    target
        Where the message goes.
    room
        The most bytes; None for any number.
    finish
        Makes the value, if there is one.
    """

    def __init__(
        self,
        matching: Any,
        context: int,
        source: int,
        tag: int,
        target: Target,
        room: int | None = None,
        finish: Callable[[Bytes], Any] | None = None,
    ):
        self._matching, self._target, self._room = matching, target, room
        self.context, self.source, self.tag = context, source, tag
        self._make = finish
        self._finish: Callable[[], None] | None = None
        self._array: Bytes = np.empty(0, np.uint8)
        self._over = False

    def match(self, source: int, tag: int, nbytes: int) -> None:
        """Take note of the message."""
        self.envelope = source, tag, nbytes

    def room(self, nbytes: int) -> Bytes:
        """An array for the message; more bytes than fit are received and dropped."""
        if self._room is not None and nbytes > self._room:
            self.error = MpiException(
                ERRORS["ERR_TRUNCATE"],
                f"message truncated: {nbytes} bytes were sent, and {self._room} fit",
            )
        else:
            try:
                self._array, self._finish = self._target(nbytes)
            except Exception as error:  # such as a count beyond the buffer
                self.error = error
        if self.error is not None:
            self._finish, self._array = None, np.empty(nbytes, np.uint8)
        return self._array

    def take(self, data: Bytes) -> None:
        """Take a short message."""
        room = self.room(len(data))
        room[...] = data
        self._end()

    def arrived(self, message: Any) -> None:
        """Take note of the end of a long message."""
        self.error = self.error or as_error(message.exception(0))
        self._end()

    def _end(self) -> None:
        if self.error is None:
            try:
                if self._finish is not None:
                    self._finish()
                if self._make is not None:
                    self.value = self._make(self._array)
            except Exception as error:
                self.error = error
        self._over = True

    def is_over(self) -> bool:
        """Whether the message has come."""
        if not self._over:
            self._matching.poll()
        return self._over

    def wait(self) -> None:
        """Wait until the message has come."""
        record = self._matching.next_record
        while not self.is_over():
            self._matching.check()
            self._matching.pause(self.message or record)
            record = self._matching.next_record

    def cancel(self) -> None:
        """Give it up, unless a message was matched."""
        if self._matching.withdraw(self):
            self._over = self.is_cancelled = True


class Background(Operation):
    """A collective in the background.

    Parameters
    ----------
    work
        The call of the library.
    finish
        Follows it, and returns the value.
    """

    def __init__(self, work: Any, finish: Callable[[Any], Any] | None):
        self.message, self._finish = work, finish
        self._over = False

    def is_over(self) -> bool:
        """Whether the call has ended."""
        if not self._over and self.message.done():
            self._end()
        return self._over

    def wait(self) -> None:
        """Wait until the call has ended."""
        if not self._over:
            self.message.exception()
            self._end()

    def _end(self) -> None:
        self._over = True
        self.error = as_error(self.message.exception(0))
        if self.error is None and self._finish is not None:
            self.value = self._finish(self.message.wait(0))


class Several(Operation):
    """Operations that end together; the envelope and the value are those of the last.

    Parameters
    ----------
    operations
        The operations.
    finish
        Follows them, and returns the value.
    """

    def __init__(
        self, operations: Sequence[Operation], finish: Callable[[], Any] | None = None
    ):
        self._operations, self._finish = operations, finish
        self._over = False

    def is_over(self) -> bool:
        """Whether all have ended."""
        if not self._over and all(one.is_over() for one in self._operations):
            self._end()
        return self._over

    def wait(self) -> None:
        """Wait until all have ended."""
        for one in self._operations:
            one.wait()
        if not self._over:
            self._end()

    def _end(self) -> None:
        self._over = True
        errors = [one.error for one in self._operations if one.error is not None]
        self.error = errors[0] if errors else None
        if self._operations:
            self.envelope = self._operations[-1].envelope
            self.value = self._operations[-1].value
        if self.error is None and self._finish is not None:
            self.value = self._finish()


def as_error(error: BaseException | None) -> BaseException | None:
    """An error as ``MPI.Exception``."""
    return None if error is None else as_mpi_exception(error)


def wait_for_any(operations: Sequence[Operation]) -> None:
    """Wait until one of several operations has ended."""
    looks = 0
    while not any(one.is_over() for one in operations):
        looks += 1
        time.sleep(0 if looks < 200 else 5e-5)
