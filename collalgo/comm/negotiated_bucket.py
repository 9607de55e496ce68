"""A bucket to which each rank adds its arrays in an order of its own."""

import math
import time
from types import TracebackType
from typing import Any

from collalgo.base.finalizers import finalize
from collalgo.bootstrap.timeouts import checked_timeout
from collalgo.comm.negotiator import Negotiator, OwnCommunicator, Pending
from collalgo.comm.reasons import reason_of
from collalgo.comm.types import OpLike
from collalgo.engine.arrays import Array, as_array, check_apart, check_writeable
from collalgo.engine.devices.arrays import for_another_thread
from collalgo.errors import CollalgoError, CollectiveTimeout

#: Seconds by which a rank waits longer than rank 0, which can name the late ranks.
MARGIN = 5.0

#: The most characters of a name.
MOST_CHARACTERS = 1024


class NegotiatedCall:
    """An allreduce of a negotiated bucket, with the methods of a :class:`Work`."""

    def __init__(self, bucket: "NegotiatedBucket", buf: Any, pending: Pending):
        self._bucket, self._buf, self._pending = bucket, buf, pending

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._pending.batch is not None and self._pending.batch.done

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until all ranks have added the array, and for the result."""
        if timeout is not None:
            checked_timeout(timeout)
        begin = time.monotonic()
        self._bucket.await_begin(self._pending, timeout)
        assert self._pending.batch is not None
        left = None if timeout is None else timeout - (time.monotonic() - begin)
        self._pending.batch.finish(None if left is None else max(left, 0.0))
        self._bucket.forget(self)
        return self._buf

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)


class NegotiatedBucket:
    """Collects named arrays that ranks add in any order; see ``Communicator.bucket``.

    Parameters
    ----------
    comm
        A communicator of the bucket alone, so that its calls are in one order on all
        ranks independently of their other calls; it is closed with the bucket.
    op
        See :func:`collalgo.allreduce`.
    limit
        Bytes in one call; a larger array has a call of its own.
    stall_seconds
        Seconds after which ranks that others wait for are reported.
    """

    def __init__(
        self, comm: OwnCommunicator, op: OpLike, limit: int, stall_seconds: float
    ):
        self._comm = comm
        self._negotiator = Negotiator(comm, op, limit, stall_seconds)
        self._added: dict[NegotiatedCall, None] = {}  # in their order
        self._open = True
        finalize(self, comm.close)  # which ends the thread of a bucket that is dropped

    @property
    def _longest(self) -> float | None:
        """Seconds of the longest wait for rank 0; None for no limit."""
        longest = self._comm.timeout + MARGIN
        return None if math.isinf(longest) else longest

    def allreduce(self, buf: Any, name: str) -> NegotiatedCall:
        """Reduce an array in place as soon as all ranks have added one of this name.

        Parameters
        ----------
        buf
            The array. One on a device is read on the stream that is current now, where
            its result will be, too.
        name
            The same for the arrays of all ranks that are reduced together; it may be
            used again once the result has arrived.

        Raises
        ------
        ValueError
            If the name is in use, or the array shares memory with one that waits.
        """
        if not self._open:
            raise CollalgoError("allreduce: this bucket is closed; make a new one")
        pending = self._negotiator.add(_checked(buf, name), name)
        call = NegotiatedCall(self, buf, pending)
        self._added[call] = None
        return call

    def forget(self, call: NegotiatedCall) -> None:
        """Drop a call that has ended, with its array."""
        self._added.pop(call, None)

    def await_begin(self, pending: Pending, timeout: float | None) -> None:
        """Wait until the call of an array has begun.

        Raises
        ------
        TimeoutError
            If it has not after ``timeout`` seconds.
        CollalgoError
            If it cannot begin.
        """
        begun = pending.begun.wait(self._longest if timeout is None else timeout)
        if pending.batch is None:
            self._negotiator.check()
        if not begun and timeout is not None:
            raise TimeoutError(f"allreduce: not begun by all ranks in {timeout:g} s")
        if not begun:
            raise CollectiveTimeout(
                "allreduce: rank 0, which coordinates the bucket, has not answered "
                f"within {self._longest:g} s",
                rank=self._comm.rank,
                missing=(0,),
            )

    def wait(self) -> None:
        """Wait until all arrays that this rank has added are reduced."""
        while self._added:
            call = next(iter(self._added))
            self.forget(call)
            call.wait()

    def close(self) -> None:
        """Wait for all arrays, and until all ranks close the bucket.

        Raises
        ------
        CollalgoError
            If another rank waits for an array that this one has not added.
        """
        if self._open:
            try:
                self.wait()
            finally:
                self._leave("")
            self._negotiator.check()

    def _leave(self, reason: str) -> None:
        """Report the last array to rank 0, and wait until all ranks have done so."""
        self._open = False
        self._negotiator.leave(reason)
        self._negotiator.thread.join(self._longest)
        self._comm.close()

    def __enter__(self) -> "NegotiatedBucket":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._open:
            self._leave(reason_of(error))


def _checked(buf: Any, name: object) -> Array:
    """The array of a call."""
    if not isinstance(name, str) or not 0 < len(name) <= MOST_CHARACTERS:
        raise ValueError(
            f"allreduce: name is {name!r:.60}; pass text of 1 to {MOST_CHARACTERS} "
            "characters, the same on all ranks"
        )
    array = as_array(for_another_thread(buf, "allreduce"), "allreduce")
    check_writeable(array, "buf", "allreduce")
    check_apart(array, "buf", "allreduce")
    return array
