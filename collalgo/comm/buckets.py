"""The buckets of a communicator."""

from typing import TYPE_CHECKING, Literal, overload

from collalgo.base.integers import integer
from collalgo.bootstrap.timeouts import checked_timeout
from collalgo.comm.bucket import LIMIT, Bucket
from collalgo.comm.runner import Runner
from collalgo.comm.types import OpLike

if TYPE_CHECKING:  # imported where it is used, as few jobs need it
    from collalgo.comm.negotiated_bucket import NegotiatedBucket
    from collalgo.comm.negotiator import OwnCommunicator

#: Seconds after which ranks that others wait for are reported.
STALL_SECONDS = 60.0


class Buckets:
    """Makes buckets, which join many small allreduces into few large ones."""

    _runner: Runner

    def dup(self) -> "OwnCommunicator":
        """See ``Communicator``."""
        raise NotImplementedError

    @overload
    def bucket(
        self,
        op: OpLike = "sum",
        limit: int = LIMIT,
        *,
        negotiate: Literal[False] = False,
    ) -> Bucket: ...

    @overload
    def bucket(
        self,
        op: OpLike = "sum",
        limit: int = LIMIT,
        *,
        negotiate: Literal[True],
        stall_seconds: float = STALL_SECONDS,
    ) -> "NegotiatedBucket": ...

    def bucket(
        self,
        op: OpLike = "sum",
        limit: int = LIMIT,
        *,
        negotiate: bool = False,
        stall_seconds: float = STALL_SECONDS,
    ) -> "Bucket | NegotiatedBucket":
        """A bucket that joins many small allreduces into few large ones.

        Parameters
        ----------
        op
            See :func:`collalgo.allreduce`.
        limit
            Bytes in one call; a larger array has a call of its own.
        negotiate
            Whether ranks add their arrays in any order, each with a name:
            ``bucket.allreduce(gradient, "layer3")``. Rank 0 receives all names and
            chooses the arrays that are reduced next. All ranks make such a bucket at
            the same point, and close it.
        stall_seconds
            Seconds after which rank 0 logs the names that some ranks wait for, and the
            ranks that have not added them. After the timeout of the communicator that
            is an error on all ranks.

        Examples
        --------
        >>> import collalgo
        >>> import numpy as np
        >>> def sums(comm):
        ...     x, y = np.ones(2), np.ones(3)
        ...     named = [("x", x), ("y", y)]
        ...     with comm.bucket(negotiate=True) as bucket:
        ...         for name, array in named[:: 1 - 2 * (comm.rank % 2)]:
        ...             bucket.allreduce(array, name)
        ...     return float(x[0] + y[0])
        >>> collalgo.threads(sums, 3)
        [6.0, 6.0, 6.0]
        """
        self._runner.check_open("bucket")
        if not negotiate:
            return Bucket(self._runner, op, limit)
        from collalgo.comm.negotiated_bucket import NegotiatedBucket

        self._runner.check_background("bucket")
        limit = integer(limit, "limit", "bucket", 1)
        stall = checked_timeout(stall_seconds, "stall_seconds")
        return NegotiatedBucket(self.dup(), op, limit, stall)
