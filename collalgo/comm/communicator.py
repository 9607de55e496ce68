"""The communicator: ranks that make the same calls in the same order."""

import math
import weakref
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collalgo._kernels.comm.call_runner import CommunicatorBase
from collalgo.base.arguments import wrong_type
from collalgo.base.finalizers import Lock, finalize
from collalgo.base.integers import INT64_MAX, shape_of
from collalgo.bootstrap.context import Context
from collalgo.comm.buckets import Buckets
from collalgo.comm.collectives import Collectives
from collalgo.comm.groups import Groups
from collalgo.comm.of_process import OfProcess
from collalgo.comm.point_to_point.objects import ObjectMessages
from collalgo.comm.runner import Runner
from collalgo.comm.survival import Survival
from collalgo.engine.call import AlgorithmChoice
from collalgo.engine.heap import Heap
from collalgo.errors import CollalgoError

if TYPE_CHECKING:  # imported where they are used, which takes a while
    from collalgo._kernels.comm.point_to_point.mailbox import Mailbox
    from collalgo.selection.selection import Selection
    from collalgo.topology.model import Topology

_first_message = Lock()


class ClosedMailbox:
    """Refuses the messages of a communicator that is closed."""

    def __init__(self, runner: Runner):
        self._runner = runner

    def __getattr__(self, call: str) -> Any:
        self._runner.check_open(call)
        raise self._runner.recovery.closed(call)  # another thread is closing it


class Communicator(
    Collectives, ObjectMessages, Groups, Buckets, Survival, OfProcess, CommunicatorBase
):
    """A group of ranks and their calls.

    Made by :func:`collalgo.init`, :func:`collalgo.spawn` or :func:`collalgo.threads`,
    not directly. All its ranks make the same calls in the same order; that is checked,
    and a mismatch is raised on every rank. After such an error, a timeout or the death
    of a rank, the communicator cannot be used any more; see :meth:`shrink`.

    Attributes
    ----------
    rank : int
        The number of this rank, from 0.
    size : int
        The number of ranks.
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
    _instead = "use dup(), or pass the function its own communicator, as spawn() does"

    def __init__(self, context: Context, timeout: float | None = None):
        runner = Runner(context, timeout)
        super().__init__(runner)
        self.heap: Heap = context.memory.heap
        self.hosts = context.hosts
        self.engine = context.engine
        self._close_mailbox: weakref.finalize[..., Communicator] | None = None

    @cached_property
    def _mailbox(self) -> "Mailbox":  # type: ignore[override]
        """The messages of this rank, made at the first, as most groups send none."""
        with _first_message:
            if "_mailbox" not in self.__dict__:
                self.__dict__["_mailbox"] = self._new_mailbox()
        found: Mailbox = self.__dict__["_mailbox"]
        return found

    def _new_mailbox(self) -> "Mailbox | ClosedMailbox":
        if self.closed or self.forked:
            return ClosedMailbox(self._runner)
        from collalgo._kernels.comm.point_to_point.mailbox import Mailbox
        from collalgo.comm.point_to_point.connection import Connection

        context, home = self._runner.context, weakref.ref(self._runner)
        connection = partial(Connection, context.rendezvous, home)
        found = Mailbox(self.rank, self.size, context.shared, home, connection)
        self._close_mailbox = finalize(self, found.close)
        return found

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<Communicator{state} rank {self.rank} of {self.size}>"

    @property
    def label(self) -> str:
        return self._runner.context.label

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
        no other rank has begun to receive; for messages that are being received this
        waits up to 5 s. Short messages stay until they are received.

        Raises
        ------
        MismatchError
            If the ranks have made different calls without an error so far, among the
            calls that both of two ranks have made: the later one raises. A
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

    def abort(self, reason: str, *, with_groups: bool = False) -> None:
        """Close because of an error: calls of other ranks raise PeerFailed with it.

        As its process ends, this rank leaves the groups of the communicator, too.
        """
        if not isinstance(reason, str):
            advice = "text, which the errors of the other ranks show"
            raise wrong_type("abort", "reason", reason, advice)
        self._runner.context.abort(reason, with_groups=with_groups)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, _kind: object, error: object, _place: object) -> None:
        mismatch = self._leave()
        if mismatch is not None and error is None:  # else it would hide the error
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
            The shape of the array, as in :func:`numpy.empty`.
        dtype
            The dtype of the array.

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
        lengths = shape_of(shape, "empty")
        nbytes = math.prod(lengths) * dtype.itemsize
        if dtype.hasobject or nbytes > INT64_MAX:
            raise ValueError(
                f"empty: shape {lengths} of {dtype} is not possible; pass a dtype of "
                f"numbers and at most {INT64_MAX} bytes"
            )
        return self.heap.empty(lengths, dtype)

    def select(
        self,
        collective: str,
        nbytes: float | str,
        *,
        devices: bool = False,
        reproducible: bool = False,
        algorithm: AlgorithmChoice = None,
        policy: str | None = None,
    ) -> "Selection":
        """Choose an algorithm as this communicator does; see the function.

        For arrays on ``devices``, the choice is known after the first call on some;
        ``explain()`` then says what moved the arrays of the last one.
        """
        from dataclasses import replace

        from collalgo.selection.choice import select

        runner = self._runner
        found = select(
            collective,
            nbytes,
            topology=runner.devices.pricer if devices else runner.programs.pricer,
            reproducible=reproducible,
            algorithm=algorithm,
            policy=policy,
        )
        if not devices:
            return found
        route = f"{found.basis}; the last call moved its arrays by "
        return replace(found, basis=route + runner.devices.route)

    def replan(self, topology: "Topology | None" = None) -> None:
        """Choose the algorithms of all further calls again (collective).

        After a link has failed, become slow or come back: pass the machines as they are
        now, as from ``topology.without(...)`` or ``degraded(...)``, or nothing to read
        the interfaces of all hosts again. Persistent calls, calls on devices and groups
        that exist keep their algorithms; groups made later use the new ones. The
        result of :meth:`shrink` or :meth:`grow` begins with the machines of the job.

        Parameters
        ----------
        topology
            The same on every rank, with a core for each rank of a host. By default the
            machines as their hosts describe them; on one host, its measured profile.

        Raises
        ------
        ValueError
            If ranks pass different topologies.
        TopologyError
            If a host has fewer cores than ranks.
        """
        from collalgo.comm.topology import replan

        replan(self._runner, topology)
