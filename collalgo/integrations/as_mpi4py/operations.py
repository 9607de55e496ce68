"""What a request waits for: a message, a call in the background, or several."""

from collections.abc import Callable, Sequence, Set
from typing import Any

from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from collalgo.integrations.as_mpi4py.errors import MpiException, as_mpi_exception


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
    others : sequence of int
        The ranks of the world one of which must live until it has completed.
    purpose : str
        What a wait for it was for.
    tests : int
        The tests that found that it had not ended.
    ended : set of int
        The ranks that had ended at the last look for such ranks in a wait for it.
    hopeless_since : float or None
        The time since when such tests have found that it cannot complete.
    """

    error: BaseException | None = None
    envelope: tuple[int, int, int] = (ANY_SOURCE, ANY_TAG, 0)
    value: Any = None
    message: Any = None
    is_cancelled = False
    others: Sequence[int] = ()
    purpose = "a call"
    tests = 0
    ended: Set[int] = frozenset()
    hopeless_since: float | None = None

    def is_over(self) -> bool:
        """Whether it has ended, with a result or an error."""
        return True

    def wait(self) -> None:
        """Wait until it has ended."""

    def cancel(self) -> None:
        """Give it up, if that is still possible."""

    def free(self) -> None:
        """Record that its request has ended."""

    def messages(self) -> Sequence[Any]:
        """The messages all of which must end before it does; none if there are others.

        They are :class:`~.message_operations.OfMessages`.
        """
        return ()

    def lose(self, error: BaseException) -> None:
        """End it with the error of another rank."""
        raise NotImplementedError


class Empty(Operation):
    """A message from or to no rank."""

    envelope = (PROC_NULL, ANY_TAG, 0)


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
        """Wait until all have ended; after the timeout of one, give up the others."""
        try:
            for one in self._operations:
                one.wait()
        except MpiException:
            self.cancel()
            raise
        if not self._over:
            self._end()

    def cancel(self) -> None:
        """Give up those for which that is still possible."""
        for one in self._operations:
            one.cancel()

    def messages(self) -> Sequence[Any]:
        """The messages that have not ended."""
        waiting = [one for one in self._operations if not one.is_over()]
        return [message for one in waiting for message in one.messages()]

    def lose(self, error: BaseException) -> None:
        """End it with the error of another rank; give up the others."""
        self.cancel()
        self.error, self._over = error, True

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
