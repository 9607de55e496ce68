"""Generalized requests, which the program itself completes."""

import time
from typing import Any

from collalgo.integrations.as_mpi4py.attributes import call
from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.requests import KINDS, Request
from collalgo.integrations.as_mpi4py.statuses import Status


class OfProgram(Operation):
    """What the program completes.

    Parameters
    ----------
    query, free, cancel
        Its functions, which may be None.
    arguments, named
        What they are called with.
    """

    def __init__(self, query: Any, free: Any, cancel: Any, arguments: Any, named: Any):
        self._query, self._free, self._cancel = query, free, cancel
        self._arguments, self._named = tuple(arguments or ()), dict(named or {})
        self.is_complete = self.is_freed = self._is_known = False

    def is_over(self) -> bool:
        """Whether the program has completed it."""
        if self.is_complete and not self._is_known:
            self._is_known = True
            self._ask()
        return self.is_complete

    def wait(self) -> None:
        """Wait until the program has completed it."""
        while not self.is_over():
            time.sleep(5e-5)

    def _ask(self) -> None:
        """Ask the program for the status."""
        status = Status()
        status.set(ANY_SOURCE, ANY_TAG, 0, cancelled=self.is_cancelled)
        if self._query is not None:
            self._call(self._query, status)
        self.envelope = status.source, status.tag, int(status.count)
        self.is_cancelled = status.cancelled

    def free(self) -> None:
        """Report the end of the request to the program."""
        if self._free is not None:
            self._call(self._free)

    def free_if_over(self) -> None:
        """Report the end of a request that was freed, once it has been completed."""
        if self.is_freed and self.is_complete:
            self.free()

    def cancel(self) -> None:
        """Ask the program to give it up."""
        if self._cancel is not None:
            self._call(self._cancel, self.is_complete)

    def _call(self, function: Any, *first: Any) -> None:
        call(lambda: function(*first, *self._arguments, **self._named))


class Grequest(Request):
    """A request that the program completes; ``MPI.Grequest``."""

    @classmethod
    def Start(
        cls,
        query_fn: Any = None,
        free_fn: Any = None,
        cancel_fn: Any = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> Any:
        """Start a request.

        Parameters
        ----------
        query_fn, free_fn, cancel_fn
            ``query_fn(status)`` fills in the status, ``free_fn()`` is called at the
            end, ``cancel_fn(is_complete)`` if the request is cancelled.
        args, kwargs
            Further arguments of the three.
        """
        return cls.of(OfProgram(query_fn, free_fn, cancel_fn, args, kwargs))

    def Complete(self) -> None:
        """Complete the request."""
        self.complete()

    def complete(self, obj: Any = None) -> None:
        """Complete the request with a value."""
        operation = self.state.operation
        operation.value, operation.is_complete = obj, True
        operation.free_if_over()

    def Free(self) -> None:
        """Free the request; ``free_fn`` is called once it has been completed."""
        operation = self.state.operation
        super().Free()
        operation.is_freed = True
        operation.free_if_over()


KINDS.append(Grequest)
