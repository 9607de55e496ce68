"""The communicator: ranks that make the same calls in the same order."""

import math
import weakref
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collalgo._kernels.comm.call_runner import CommunicatorBase
from collalgo._kernels.comm.point_to_point.mailbox import Mailbox
from collalgo.base.integers import INT64_MAX, integer, rank_of, shown
from collalgo.bootstrap.context import Context
from collalgo.comm.bucket import LIMIT, Bucket
from collalgo.comm.collectives import Collectives
from collalgo.comm.host_groups import HostGroups
from collalgo.comm.point_to_point.calls import Messages
from collalgo.comm.point_to_point.connection import Connection
from collalgo.comm.runner import Runner
from collalgo.comm.survival import Survival
from collalgo.comm.types import Op
from collalgo.engine.call import AlgorithmChoice
from collalgo.engine.heap import Heap
from collalgo.errors import CollalgoError

if TYPE_CHECKING:  # with the model of topologies, which takes a while to import
    from collalgo.selection.selection import Selection

_first_message = Lock()


class ClosedMailbox:
    """Refuses the messages of a communicator that is closed."""

    def __init__(self, runner: Runner):
        self._runner = runner

    def __getattr__(self, call: str) -> Any:
        self._runner.check_open(call)
        raise AttributeError(call)


class Communicator(Collectives, Messages, HostGroups, Survival, CommunicatorBase):
    """A group of ranks and their calls.

    Made by :func:`collalgo.init`, :func:`collalgo.spawn` or :func:`collalgo.threads`,
    not directly. All its ranks make the same calls in the same order; that is checked,
    and a mismatch is raised on every rank. After such an error, a timeout or the death
    of a rank, the communicator cannot be used any more; see :meth:`shrink`.

    Attributes
    ----------
    rank, size : int
        The number of this rank, from 0, and the number of ranks.
    hosts : tuple of int
        The number of the host of each rank.
    label : str
        Its name in dumps, the same on all ranks.
    engine : str or None
        The library that carries messages between its hosts, with its version; None on
        one host.
    heap : Heap
        The shared memory in which :meth:`empty` makes arrays.
    """

    _runner: Runner

    def __init__(self, context: Context, timeout: float | None = None):
        runner = Runner(context, timeout)
        super().__init__(runner)
        self.heap: Heap = context.memory.heap
        self.hosts = context.hosts
        self.label = context.label
        self.engine = context.engine
        self._groups: dict[tuple[int, ...], int] = {}
        self._close_mailbox: weakref.finalize[..., Communicator] | None = None

    @cached_property
    def _mailbox(self) -> Mailbox:  # type: ignore[override]
        """The messages of this rank, made at the first, as most groups send none."""
        with _first_message:
            if "_mailbox" not in self.__dict__:
                self.__dict__["_mailbox"] = self._new_mailbox()
        found: Mailbox = self.__dict__["_mailbox"]
        return found

    def _new_mailbox(self) -> Mailbox | ClosedMailbox:
        if self.closed or self.forked:
            return ClosedMailbox(self._runner)
        context, home = self._runner.context, weakref.ref(self._runner)
        connection = partial(Connection, context.rendezvous, home)
        found = Mailbox(self.rank, self.size, context.shared, home, connection)
        self._close_mailbox = weakref.finalize(self, found.close)
        return found

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<Communicator{state} rank {self.rank} of {self.size}>"

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for the other ranks before it raises."""
        return self._runner.timeout

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self._runner.timeout = timeout

    @property
    def closed(self) -> bool:
        return self._runner.context.transport.closed

    @property
    def forked(self) -> bool:
        """Whether this process is a child forked after the communicator was made."""
        return self._runner.context.transport.forked

    def close(self) -> None:
        """Leave the communicator and release its memory; closing twice is allowed.

        Calls in the background that have not ended fail, and so do long messages that
        no other rank has begun to receive; for what is being received this waits for
        up to 5 s. Short messages stay until they are received.

        Raises
        ------
        MismatchError
            If the ranks have made different calls that none of them has noticed, as
            far as the others have made them: of two ranks, the later one raises. A
            communicator that is left open until its process ends prints the error
            then, and the process ends with exit code 1.
        """
        if error := self._leave():
            raise error

    def _leave(self) -> CollalgoError | None:
        """Leave the communicator: the error if calls are found to have differed."""
        with _first_message:
            close_mailbox = self._close_mailbox
            # The mailbox keeps the memory of messages.
            self.__dict__["_mailbox"] = ClosedMailbox(self._runner)
        if close_mailbox is not None:
            close_mailbox()
        return self._runner.close()

    def abort(self, reason: str) -> None:
        """Close because of an error: calls of other ranks raise PeerFailed with it."""
        self._runner.context.abort(reason)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, _kind: object, error: object, _place: object) -> None:
        mismatch = self._leave()
        if mismatch is not None and error is None:  # which would hide another
            raise mismatch

    def empty(
        self, shape: int | Sequence[int], dtype: DTypeLike = np.float64
    ) -> NDArray[Any]:
        """An array in memory that the other ranks can read without a copy.

        Calls on it, or on any part of it, give the same results as on other arrays,
        but long arrays, and those of an allreduce in place, are read and written
        without a copy. It lives as long as it is used, even after the communicator is
        closed. If the system has no shared memory left, it is an ordinary array.

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
        self._runner.check_open("empty")
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

    def bucket(self, op: Op = "sum", limit: int = LIMIT) -> Bucket:
        """A bucket that joins many small allreduces into few large ones; see there."""
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
    ) -> "Selection":
        """Choose an algorithm as this communicator does; see the function.

        For arrays on ``devices``, the choice is known after the first call on some.
        """
        from collalgo.selection.choice import select

        runner = self._runner
        return select(
            collective,
            nbytes,
            topology=runner.devices.pricer if devices else runner.programs.pricer,
            reproducible=reproducible,
            algorithm=algorithm,
            policy=policy,
        )

    def group(self, ranks: Sequence[int]) -> "Communicator":
        """Make a communicator of some of the ranks; only these call it.

        Parameters
        ----------
        ranks
            Ranks of this communicator; their order gives the ranks of the new one.
        """
        if not isinstance(ranks, Iterable):
            raise TypeError(f"group: ranks is {shown(ranks)}; pass a sequence of ranks")
        members = tuple(rank_of(rank, "rank", "group", self.size) for rank in ranks)
        for place, rank in enumerate(members):
            if rank in members[:place]:
                raise ValueError(
                    f"group: ranks {list(members)} name rank {rank} twice; name each "
                    "member once"
                )
        if self.rank not in members:
            raise ValueError(
                f"group: rank {self.rank} is not in the group {list(members)}; "
                "only its members may call"
            )
        return self._connect(members)

    def _connect(
        self, members: tuple[int, ...], *, have_met: bool = False
    ) -> "Communicator":
        """A communicator of some ranks, which need not wait if they have met."""
        self._runner.check_open("group")
        number = self._groups[members] = self._groups.get(members, 0) + 1
        name = f"{'-'.join(map(str, members))}#{number}"
        rendezvous = self._runner.context.rendezvous
        context = rendezvous.connect(
            name, members.index(self.rank), members, have_met=have_met
        )
        return Communicator(self._runner.subgroup(context), self.timeout)

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
        everyone = self._runner.exchange(mine, "split")
        ranks = tuple(
            rank
            for _, rank in sorted(
                (row[2], rank)
                for rank, row in enumerate(everyone.tolist())
                if row[0] and row[1] == given
            )
        )
        return None if color is None else self._connect(ranks, have_met=True)

    def dup(self) -> "Communicator":
        """Make a communicator of the same ranks, with calls of its own."""
        return self._connect(tuple(range(self.size)))
