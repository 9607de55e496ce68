"""Many small allreduces as few large ones: what a bucket collects goes together."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo._kernels.comm.reducing import Calls
from collalgo._kernels.comm.work import Work
from collalgo.base.integers import integer
from collalgo.bootstrap.context import seconds
from collalgo.engine.arrays import Array, as_array, bounds, check_apart, check_writeable
from collalgo.engine.devices.arrays import Shadow
from collalgo.errors import CollalgoError

if TYPE_CHECKING:
    from collalgo.comm.communicator import Communicator

#: Bytes that a bucket collects, unless told otherwise: about where the time of an
#: allreduce becomes that of its bytes.
LIMIT = 1 << 20


class Intervals:
    """Addresses from one to another, each of a number; they may overlap."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, int, int]] = []
        self._longest = 0

    def add(self, low: int, high: int, number: int) -> None:
        insort(self._sorted, (low, high, number))
        self._longest = max(self._longest, high - low)

    def across(self, low: int, high: int) -> Iterator[int]:
        """The numbers of those that have addresses in common with these."""
        first = bisect_left(self._sorted, (low - self._longest,))
        last = bisect_left(self._sorted, (high,))
        for _, end, number in self._sorted[first:last]:
            if end > low:
                yield number


class Load:
    """Arrays of one dtype, all on the host or all on a device, that travel together."""

    def __init__(self, first: Array):
        self._kind = _kind(first)
        self.nbytes = 0
        self._arrays: list[Array] = []
        self._parts: list[Array] = []  # of what travels, as many as arrays
        self._work: Work | None = None
        self._lock = Lock()
        self._taken = Intervals()

    def takes(self, array: Array, limit: int) -> bool:
        """Whether an array can go with these, which then have so many bytes at most."""
        return _kind(array) == self._kind and self.nbytes + array.nbytes <= limit

    def add(self, array: Array) -> None:
        """Take an array along.

        Raises
        ------
        ValueError
            If another that goes along shares memory with it: both would be reduced
            from what is there now, and only one result would last.
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

    def depart(self, comm: "Communicator", op: Any) -> None:
        """Begin the call."""
        total = sum(array.size for array in self._arrays)
        first = self._arrays[0]
        if isinstance(first, Shadow):
            on_device = first.fresh((total,))
            self._divide(on_device)
            self._fill()
            self._work = comm.allreduce_async(on_device, op)
            return
        flat = np.empty(total, first.dtype)
        self._divide(flat)
        self._work = comm.submit(
            Calls.allreduce, (flat, op), {}, before=self._fill, after=self._empty
        )

    def _divide(self, flat: Array) -> None:
        """Give each array its part of what travels."""
        start = 0
        for array in self._arrays:
            part = flat[start : start + array.size].reshape(array.shape)
            self._parts.append(part)
            start += array.size

    def _fill(self) -> None:
        """Copy the arrays to what travels; the calls before may change them."""
        for array, part in zip(self._arrays, self._parts, strict=True):
            part[...] = array

    def _empty(self) -> None:
        """Copy the result to the arrays, once; the calls behind may read them."""
        with self._lock:
            for array, part in zip(self._arrays, self._parts, strict=True):
                array[...] = part
            self._arrays, self._parts = [], []

    @property
    def departed(self) -> bool:
        return self._work is not None

    @property
    def done(self) -> bool:
        return self._work is not None and self._work.done()

    def unload(self, timeout: float | None) -> None:
        """Wait until the result is in the arrays."""
        assert self._work is not None
        if timeout is None:
            self._work.wait_stream()  # behind it the results of a device are copied
        else:
            self._work.wait(timeout)
        self._empty()  # those of a device; the others have theirs already


def _kind(array: Array) -> tuple[np.dtype[Any], object]:
    """What arrays that travel together have in common: the dtype, and the device."""
    return array.dtype, array.runtime if isinstance(array, Shadow) else None


class Fused:
    """An allreduce that goes with others, as :class:`Work` is one that goes alone."""

    def __init__(self, bucket: "Bucket", load: Load, buf: Any):
        self._bucket, self._load, self._buf = bucket, load, buf

    def done(self) -> bool:
        """Whether the call has ended; on a device :meth:`wait` brings the result."""
        return self._load.done

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the result; what the bucket has collected goes now if it has not."""
        if timeout is not None:
            seconds(timeout)
        if not self._load.departed:
            self._bucket.flush()
        self._load.unload(timeout)
        return self._buf

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)


class Bucket:
    """Collects arrays that are to be reduced, and reduces many in one call.

    All ranks must give it arrays of the same sizes in the same order, and flush it or
    wait at the same places. At the end of ``with`` all that it was given is reduced.

    Parameters
    ----------
    comm
        The communicator.
    op
        See :func:`collalgo.allreduce`.
    limit
        Bytes after which what was collected goes; an array of as many goes alone.

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

    def __init__(self, comm: "Communicator", op: Any = "sum", limit: int = LIMIT):
        self._limit = integer(limit, "limit", "bucket", 1)
        self._comm, self._op = comm, op
        self._load: Load | None = None
        self._departed: list[Load] = []
        self._open = True

    def allreduce(self, buf: Any) -> Fused:
        """Reduce an array in place, together with others."""
        if not self._open:
            raise CollalgoError("allreduce: this bucket is closed; make a new one")
        array = as_array(buf, "allreduce")
        check_writeable(array, "buf", "allreduce")
        check_apart(array, "buf", "allreduce")
        if self._load is not None and not self._load.takes(array, self._limit):
            self.flush()
        if self._load is None:
            self._load = Load(array)
        self._load.add(array)
        fused = Fused(self, self._load, buf)
        if self._load.nbytes >= self._limit:
            self.flush()
        return fused

    def flush(self) -> None:
        """Let what has been collected go now, in the background."""
        if self._load is not None:
            load, self._load = self._load, None
            load.depart(self._comm, self._op)
            self._departed.append(load)

    def wait(self) -> None:
        """Flush, and wait until all that was given is reduced."""
        self.flush()
        while self._departed:
            self._departed.pop(0).unload(None)

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
