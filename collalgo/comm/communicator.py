"""The communicator: ranks that make the same calls in the same order."""

import math
import weakref
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collalgo._kernels.comm.progress import Progress
from collalgo.base.integers import INT64_MAX, integer, rank_of, shown
from collalgo.bootstrap.context import Context, default_timeout, seconds
from collalgo.comm.background import Background
from collalgo.comm.bucket import LIMIT, Bucket
from collalgo.comm.point_to_point.calls import Messages
from collalgo.comm.point_to_point.pairs import Pairs
from collalgo.comm.program_cache import ProgramCache
from collalgo.comm.recovery import Recovery
from collalgo.comm.tracing.dump import remember
from collalgo.engine.call import AlgorithmChoice
from collalgo.engine.heap import Heap
from collalgo.selection.selection import Selection

if TYPE_CHECKING:  # for what only some need
    from collalgo.comm.devices.calls import DeviceCalls


class Communicator(Background, Messages):
    """Some ranks and their calls.

    Made by :func:`collalgo.init`, :func:`collalgo.spawn` or :func:`collalgo.threads`,
    not directly. All its ranks make the same calls in the same order; that is checked,
    and what is found wrong is raised on every rank. After such an error, as after a
    timeout or the death of a rank, the communicator cannot be used any more.

    Attributes
    ----------
    rank, size : int
        Which of how many ranks this is.
    hosts : tuple of int
        The number of the host of each rank.
    label : str
        What it is called in dumps, the same on all ranks.
    engine : str or None
        What carries messages between its hosts, with its version; None on one host.
    heap : Heap
        Where :meth:`empty` makes arrays.
    """

    def __init__(self, connection: Context, timeout: float | None = None):
        transport = connection.transport
        self._connection = connection
        self._programs = ProgramCache(
            transport.rank,
            transport.size,
            connection.machine,
            connection.hosts,
            connection.ground,
        )
        self._recovery = Recovery(connection)
        self.heap = Heap(connection.shared)
        self._groups: dict[tuple[int, ...], int] = {}
        self._release_devices: weakref.finalize[..., Communicator] | None = None
        self._pairs = Pairs(
            connection.rendezvous,
            weakref.ref(self),
            transport.rank,
            transport.size,
        )
        self.hosts = connection.hosts
        self.label = connection.label
        self.engine = connection.engine
        super().__init__(
            transport,
            self._programs.get,
            self._recovery.handle_status,
            self._recovery.interrupted,
            seconds(default_timeout() if timeout is None else timeout),
        )
        remember(self)
        self._release = weakref.finalize(
            self, _release, connection, self.progress, self._pairs
        )

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<Communicator{state} rank {self.rank} of {self.size}>"

    @cached_property
    def devices(self) -> "DeviceCalls":
        """What makes the calls on arrays on devices."""
        from collalgo.comm.devices.calls import DeviceCalls

        of_pair = self._recovery.connection.pair is not None  # with nothing to choose
        found = DeviceCalls(self._programs, self.hosts, weakref.ref(self), not of_pair)
        self._release_devices = weakref.finalize(self, found.close)
        self._release_devices.atexit = False
        return found

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for the other ranks before it raises."""
        return math.inf if self.seconds < 0 else self.seconds

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self.seconds = seconds(timeout)

    @property
    def closed(self) -> bool:
        return self._connection.transport.closed

    @property
    def forked(self) -> bool:
        """Whether this process is a child forked after the communicator was made."""
        return self._connection.transport.forked

    def close(self) -> None:
        """Leave the communicator and release its memory; closing twice is allowed.

        Calls in the background that have not ended fail.
        """
        self._release()
        if self._release_devices is not None:
            self._release_devices()

    def abort(self, reason: str) -> None:
        """Close because of an error: calls of the others raise PeerFailed with it."""
        self._connection.abort(reason)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def empty(
        self, shape: int | Sequence[int], dtype: DTypeLike = np.float64
    ) -> NDArray[Any]:
        """An array in memory that the other ranks can read without a copy.

        Calls on it, or on any part of it, are the same as on other arrays, but
        contributions are read where they are, and results written there, as far as
        not only the call gains by it but also the write before and the read after it:
        long arrays, and those of an allreduce in place. It lives as long as it is used,
        even when the communicator is closed. Where the system has no room for it, an
        ordinary array is given.

        Parameters
        ----------
        shape
            Of the array, as in :func:`numpy.empty`.
        dtype
            Of the array.

        Examples
        --------
        >>> import collalgo
        >>> def total(comm):
        ...     x = comm.empty(1000, "float32")
        ...     x[:] = comm.rank
        ...     return float(comm.allreduce(x)[0])
        >>> collalgo.threads(total, 4)
        [6.0, 6.0, 6.0, 6.0]
        """
        self._recovery.check_open("empty")
        dtype = np.dtype(dtype)
        given = getattr(shape, "tolist", lambda: shape)()
        lengths = tuple(
            integer(length, "shape", "empty", 0)
            for length in (given if isinstance(given, Iterable) else (given,))
        )
        nbytes = math.prod(lengths) * dtype.itemsize
        if dtype.hasobject or nbytes > INT64_MAX:
            raise ValueError(f"empty: no array of shape {lengths} and dtype {dtype}")
        block = self.heap.take(nbytes) if nbytes else None
        if block is None:
            return np.empty(lengths, dtype)
        return np.frombuffer(memoryview(block), dtype).reshape(lengths)

    def bucket(self, op: Any = "sum", limit: int = LIMIT) -> Bucket:
        """A bucket that makes few large allreduces of many small; see there."""
        return Bucket(self, op, limit)

    def select(
        self,
        collective: str,
        nbytes: int,
        *,
        devices: bool = False,
        reproducible: bool = False,
        algorithm: AlgorithmChoice = None,
        policy: str | None = None,
    ) -> Selection:
        """The decision of a call of this communicator, and why; see the function.

        For arrays on ``devices`` it is known once a call has been made on some.
        """
        from collalgo.selection.choice import select

        return select(
            collective,
            nbytes,
            topology=self.devices.pricer if devices else self._programs.pricer,
            reproducible=reproducible,
            algorithm=algorithm,
            policy=policy,
        )

    def group(self, ranks: Sequence[int]) -> "Communicator":
        """A communicator of some of the ranks, called by these only.

        Parameters
        ----------
        ranks
            Ranks of this communicator; their order gives the ranks of the new one.
        """
        if not isinstance(ranks, Iterable):
            raise TypeError(f"group: ranks is {shown(ranks)}; pass a sequence of ranks")
        members = tuple(rank_of(rank, "rank", "group", self.size) for rank in ranks)
        if len(set(members)) < len(members):
            raise ValueError(
                f"group: ranks {list(members)} must be different and below {self.size}"
            )
        if self.rank not in members:
            raise ValueError(
                f"group: rank {self.rank} is not in the group {list(members)}; "
                "only its members may call"
            )
        self._recovery.check_open("group")
        number = self._groups[members] = self._groups.get(members, 0) + 1
        name = f"{'-'.join(map(str, members))}#{number}"
        return self.within(
            self._connection.rendezvous.connect(name, members.index(self.rank), members)
        )

    def within(self, connection: Context) -> "Communicator":
        """A communicator of some of the ranks, with the figures of this one."""
        connection.machine = self._programs.host_profile
        return Communicator(connection, self.timeout)

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """Split all ranks by ``color``, each part ordered by ``key``, then by rank.

        Returns
        -------
        Communicator or None
            None where ``color`` is None.
        """
        given = 0 if color is None else integer(color, "color", "split", -INT64_MAX)
        key = integer(key, "key", "split", -INT64_MAX)
        mine = np.array([color is not None, given, key], np.int64)
        everyone = self.allgather(mine)
        ranks = [
            rank
            for _, rank in sorted(
                (row[2], rank)
                for rank, row in enumerate(everyone.tolist())
                if row[0] and row[1] == given
            )
        ]
        return None if color is None else self.group(ranks)

    def dup(self) -> "Communicator":
        """A communicator of the same ranks, with calls of its own."""
        return self.group(range(self.size))


def _release(connection: Context, progress: Progress, pairs: Pairs) -> None:
    """End what goes on in the background, then release what a communicator has."""
    pairs.close()
    progress.stop()
    connection.release()
    if progress.used:  # its call, which has failed now, still uses the memory
        progress.join()
        connection.release()
