"""Buckets, which join many small allreduces into few large ones."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.comm.call_site import CallSite
from collalgo._kernels.comm.joined import join, spread
from collalgo._kernels.comm.work import Work
from collalgo._kernels.engine.transport.transport import WHOLE_CALL
from collalgo.base.finalizers import Lock, finalize
from collalgo.base.integers import integer
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.timeouts import seconds
from collalgo.comm.current import runner_of
from collalgo.comm.functions.reducing import allreduce
from collalgo.comm.of_process import OfProcess
from collalgo.comm.recovery import Recovery
from collalgo.comm.types import Communicator, OpLike
from collalgo.engine.arrays import Array, as_array, bounds, check_apart, check_writeable
from collalgo.engine.call import Part
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.reduction import check_in_place
from collalgo.errors import CollalgoError

if TYPE_CHECKING:
    from collalgo.comm.runner import Runner

#: Bytes that a bucket collects by default: from about there on bandwidth, not latency,
#: limits an allreduce.
LIMIT = 1 << 20


class Intervals:
    """Numbered intervals of addresses, which may overlap."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, int, int]] = []
        self._longest = 0

    def add(self, low: int, high: int, number: int) -> None:
        insort(self._sorted, (low, high, number))
        self._longest = max(self._longest, high - low)

    def remove(self, low: int, high: int, number: int) -> None:
        """Forget an interval that was added."""
        del self._sorted[bisect_left(self._sorted, (low, high, number))]

    def across(self, low: int, high: int) -> Iterator[int]:
        """The numbers of the intervals that overlap this one."""
        first = bisect_left(self._sorted, (low - self._longest,))
        last = bisect_left(self._sorted, (high,))
        for _, end, number in self._sorted[first:last]:
            if end > low:
                yield number


class Batch:
    """Arrays of one dtype, on the host or one device, that are reduced in one call."""

    def __init__(self, first: Array):
        self._kind = _kind(first)
        self.nbytes = 0
        self._arrays: list[Array] = []
        self._flat: Array | None = None  # the joined array
        self._work: Work | None = None
        self._lock = Lock()
        self._taken = Intervals()

    def takes(self, array: Array, limit: int) -> bool:
        """Whether an array fits: the same kind, and ``limit`` bytes at most in all."""
        return _kind(array) == self._kind and self.nbytes + array.nbytes <= limit

    def add(self, array: Array) -> None:
        """Add an array.

        Raises
        ------
        ValueError
            If it shares memory with another: both would be reduced from the present
            values, and one result would overwrite the other.
        """
        low, high = bounds(array)
        for other in self._taken.across(low, high):
            if np.shares_memory(array, self._arrays[other]):
                raise ValueError(
                    f"allreduce: array {len(self._arrays)} in this bucket shares "
                    f"memory with array {other}; flush() the bucket between them"
                )
        self._taken.add(low, high, len(self._arrays))
        self._arrays.append(array)
        self.nbytes += array.nbytes

    def start(self, runner: CallRunner, op: OpLike) -> None:
        """Begin the call."""
        counts = [array.size for array in self._arrays]
        self._flat = flat = _joined(self._arrays[0], sum(counts))
        part: Any = Part(None, "+".join(map(str, counts)), WHOLE_CALL)
        call = partial(allreduce, flat, runner, op, algorithm=part)
        fill, empty = self._fill, self._empty
        if isinstance(flat, Shadow):  # whose copies go on a stream
            fill()
            self._work = runner.submit("allreduce", call)
        else:
            self._work = runner.submit("allreduce", call, before=fill, after=empty)

    @property
    def _stream(self) -> object:
        """The stream of the joined array, if that is on a device."""
        flat = self._flat
        return flat.runtime.stream if isinstance(flat, Shadow) else None

    def _fill(self) -> None:
        """Copy the arrays to the joined array, after the earlier calls."""
        assert self._flat is not None
        join(self._arrays, self._flat)

    def _empty(self) -> None:
        """Copy the result to the arrays, once, before the later calls."""
        with self._lock:
            if self._flat is not None:
                spread(self._flat, self._arrays)
            self._arrays, self._flat = [], None

    @property
    def started(self) -> bool:
        return self._work is not None

    @property
    def done(self) -> bool:
        return self._work is not None and self._work.done()

    def finish(self, timeout: float | None) -> None:
        """Wait until the result is in the arrays."""
        assert self._work is not None
        if timeout is None:
            self._work.wait_stream(self._stream)  # on which the results are copied
        else:
            self._work.wait(timeout)
        self._empty()  # on a device; on the host it is done already


def _kind(array: Array) -> tuple[np.dtype[Any], object]:
    """The dtype and the device of an array, the same in one call."""
    return array.dtype, array.runtime if isinstance(array, Shadow) else None


def _joined(first: Array, total: int) -> Array:
    """A new array of a number of elements, like another."""
    if isinstance(first, Shadow):
        return first.fresh((total,))
    return np.empty(total, first.dtype)


class Fused:
    """An allreduce in a bucket, with the methods of a :class:`Work`."""

    def __init__(self, bucket: "Bucket", batch: Batch, buf: Any):
        self._bucket, self._batch, self._buf = bucket, batch, buf

    def done(self) -> bool:
        """Whether the call has ended; on a device :meth:`wait` copies the result."""
        return self._batch.done

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the result; flush the bucket if that is needed."""
        if timeout is not None:
            seconds(timeout)
        if not self._batch.started:
            self._bucket.flush()
        self._batch.finish(timeout)
        return self._buf

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)


class Bucket(OfProcess):
    """Collects arrays and reduces many in one call.

    All ranks must add arrays of the same sizes in the same order, and flush or wait at
    the same points. At the end of ``with`` all arrays are reduced.

    Parameters
    ----------
    comm
        The communicator.
    op
        See :func:`collalgo.allreduce`.
    limit
        Bytes in one call; a larger array has a call of its own.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> def sums(comm):
    ...     gradients = [np.full(n, 1.0) for n in (1, 2, 3)]
    ...     with comm.bucket() as bucket:
    ...         for gradient in gradients:
    ...             bucket.allreduce(gradient)
    ...     return float(gradients[2][0])
    >>> collalgo.threads(sums, 4)
    [4.0, 4.0, 4.0, 4.0]
    """

    def __init__(self, comm: Communicator, op: OpLike = "sum", limit: int = LIMIT):
        self._limit = integer(limit, "limit", "bucket", 1)
        check_in_place(op, "bucket")
        self._runner, self._op = cast("Runner", runner_of(comm)), op
        self._batch: Batch | None = None
        self._started: list[Batch] = []
        self._open = True
        self._unreduced: list[CallSite] = []
        of_rank = self._runner.context, self._runner.recovery
        finalize(self, _report, self._unreduced, *of_rank)

    def allreduce(self, buf: Any) -> Fused:
        """Reduce an array in place, together with others."""
        if not self._open:
            raise CollalgoError("allreduce: this bucket is closed; make a new one")
        self._runner.check_open("allreduce")
        array = as_array(buf, "allreduce")
        check_writeable(array, "buf", "allreduce")
        check_apart(array, "buf", "allreduce")
        if self._batch is not None and not self._batch.takes(array, self._limit):
            self.flush()
        if self._batch is None:
            self._batch = Batch(array)
        self._batch.add(array)
        self._unreduced.append(CallSite())
        fused = Fused(self, self._batch, buf)
        if self._batch.nbytes >= self._limit:
            self.flush()
        return fused

    def flush(self) -> None:
        """Reduce the collected arrays now, in the background."""
        if self._batch is not None:
            batch, self._batch = self._batch, None
            self._unreduced.clear()
            batch.start(self._runner, self._op)
            self._started.append(batch)

    def wait(self) -> None:
        """Flush, and wait until all arrays are reduced."""
        self.flush()
        while self._started:
            self._started.pop(0).finish(None)

    def __enter__(self) -> "Bucket":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        self._open = False
        if kind is None:
            self.wait()
        self._unreduced.clear()  # which the error of the user has prevented


def _report(unreduced: list[CallSite], context: Context, recovery: Recovery) -> None:
    """Warn of arrays that no call has reduced when their bucket is dropped."""
    if unreduced and not (context.transport.forked or recovery.has_raised):
        from logging import getLogger  # here, as few processes need it

        file, line = unreduced[0].place
        getLogger("collalgo").warning(
            "bucket: rank %d dropped a bucket with %d arrays that were not reduced, "
            "the first added at %s:%d; flush() it, or use it in a with statement",
            context.transport.rank,
            len(unreduced),
            file,
            line,
        )
