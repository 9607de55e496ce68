"""Recovery after failures: revoke a communicator, and form one of its survivors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from collalgo.bootstrap.context import Newcomers
from collalgo.bootstrap.timeouts import checked_timeout
from collalgo.errors import CollalgoError

if TYPE_CHECKING:
    from collalgo.comm.runner import Runner

#: A kind of communicator, whose survivors form one of the same kind.
Surviving = TypeVar("Surviving", bound="Survival")


class Survival:
    """The calls of a communicator that may have lost ranks."""

    _runner: "Runner"
    timeout: float

    def revoke(self) -> None:
        """Fail the calls of all ranks on this communicator, now and from now on.

        They raise :class:`CommunicatorRevoked`, and so do receives and sends that wait
        for another rank: no rank stays in a call that other ranks have left. One rank
        is enough to call it; :meth:`shrink` makes a new communicator.
        """
        self._runner.check_open("revoke")
        self._runner.context.revoke()

    def shrink(self: Surviving, timeout: float | None = None) -> Surviving:
        """Make a communicator of the surviving ranks, after one has failed.

        All of them call it, for instance on :class:`PeerFailed`, which every rank
        raises. They agree on the lost ranks, and get the same answer; a further failure
        meanwhile is only another lost rank. The processes and the memory of the host
        are kept, and so is the order of the ranks. Calls on this communicator fail on
        ranks that have not called this yet; it should be closed.

        Parameters
        ----------
        timeout
            Seconds to wait for ranks that are alive; by default that of calls.

        Raises
        ------
        CollectiveTimeout
            If a rank that is alive has not called it in time.
        CommunicatorClosed
            If it is closed, also by another thread meanwhile.
        CollalgoError
            If another thread is in this call, or in :meth:`grow`.

        Examples
        --------
        >>> import collalgo
        >>> import numpy as np
        >>> def on_each_rank(comm):
        ...     if comm.rank == 1:
        ...         return comm.abort("it is tired")
        ...     try:
        ...         comm.barrier()
        ...     except collalgo.PeerFailed:
        ...         comm = comm.shrink()
        ...     return float(comm.allreduce(np.ones(1))[0])
        >>> collalgo.threads(on_each_rank, 4)
        [3.0, None, 3.0, 3.0]
        """
        seconds = self.timeout if timeout is None else checked_timeout(timeout)
        with self._only_thread("shrink"):
            context = self._runner.context.shrink(seconds)
        return type(self)(self._runner.subgroup(context), self.timeout)  # type: ignore[call-arg]

    def grow(self: Surviving, timeout: float | None = None) -> Surviving:
        """Make a communicator of the surviving ranks and of waiting processes.

        All surviving ranks call it, after a failure or because processes wait in
        :func:`collalgo.elastic.connect`. The ranks of this communicator keep their
        order, and newcomers follow. It should be closed.

        Parameters
        ----------
        timeout
            Seconds to wait for the others, and for as many members as the job needs;
            by default the ``join_timeout`` of its settings.

        Raises
        ------
        CommunicatorClosed
            If it is closed.
        CollalgoError
            If the communicator has no rendezvous for newcomers, or another thread is in
            this call, or in :meth:`shrink`.
        RendezvousError
            If there are too few members in time, or the store cannot be reached.
        """
        with self._only_thread("grow"):
            newcomers = self._newcomers
            if newcomers is None:
                raise CollalgoError(
                    f"grow: rank {self._runner.rank} has no rendezvous that new ranks "
                    "can join; start the job by collalgo run --min, or make the "
                    "communicator by elastic.connect"
                )
            self._runner.context.revoke_next()
            context = newcomers.grow(timeout)
        return type(self)(context, self.timeout)  # type: ignore[call-arg]

    @contextmanager
    def _only_thread(self, call: str) -> Iterator[None]:
        """Refuse a second thread of this rank: the ranks might pair them differently.

        Raises
        ------
        CommunicatorClosed
            If the communicator is closed, also by another thread meanwhile.
        CollalgoError
            If another thread is in it.
        """
        runner = self._runner
        runner.check_open(call)
        if not runner.regrouping.acquire(blocking=False):
            raise CollalgoError(
                f"{call}: rank {runner.rank} is in shrink or grow on this communicator "
                "already; call one of them, in one thread of each rank",
                rank=runner.rank,
                collective=call,
            )
        try:
            yield
        except (CollalgoError, ValueError):
            if runner.context.has_left:
                runner.context.release()  # the memory, which was in use when it left
            runner.check_open(call)
            raise
        finally:
            runner.regrouping.release()

    @property
    def _newcomers(self) -> Newcomers | None:
        return self._runner.context.newcomers
