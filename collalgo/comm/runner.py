"""The inside of a communicator: everything that the library itself uses."""

import math
import weakref
from collections.abc import Sequence
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.reducing import Reducing
from collalgo._kernels.engine.program import Program
from collalgo._kernels.engine.transport.transport import (
    PART_OF_LAST,
    PART_OF_NEXT,
    WHOLE_CALL,
)
from collalgo.base.finalizers import finalize
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.timeouts import default_timeout, seconds
from collalgo.comm.call_text import EXCHANGE
from collalgo.comm.closing import abandon, leftovers, release
from collalgo.comm.library_programs import LibraryPrograms
from collalgo.comm.recovery import Recovery
from collalgo.comm.tracing.registry import remember
from collalgo.engine.call import Call
from collalgo.errors import CollalgoError

if TYPE_CHECKING:
    from collalgo.bootstrap.host_inventory import PlacedTopology
    from collalgo.comm.devices.calls import DeviceCalls


class Runner(Reducing):
    """Runs the calls of one rank of a communicator.

    Collectives take it in place of the communicator.

    Parameters
    ----------
    context
        This rank's end of the communicator.
    timeout
        Seconds that a call waits for the other ranks; by default as for
        :func:`collalgo.init`.

    Attributes
    ----------
    programs : LibraryPrograms
        The programs of this rank.
    recovery : Recovery
        Turns the status of a program into an error.
    regrouping : Lock
        Held while a thread shrinks or grows the communicator.
    """

    _replaced: "PlacedTopology | None" = None  # by replan

    def __init__(self, context: Context, timeout: float | None = None):
        transport = context.transport
        self.context = context
        of_machine = context.machine, context.hosts, context.placed
        self.programs = LibraryPrograms(transport.rank, transport.size, *of_machine)
        self.recovery = Recovery(context)
        super().__init__(
            transport,
            self.programs.kind,
            self.recovery.handle_status,
            self.recovery.interrupted,
            seconds(default_timeout() if timeout is None else timeout),
        )
        self.hosts = context.hosts
        if context.one_thread:
            self.submit = partial(refuse_background, self.rank)  # type: ignore[method-assign]
        self.regrouping = Lock()
        self._release_devices: weakref.finalize[..., Runner] | None = None
        if context.pair is None:  # whose calls are the library's own
            remember(self)
        self._release = finalize(self, abandon, context, self.progress, self.recovery)

    @cached_property
    def kept(self) -> dict[type, Any]:
        """What other modules keep between calls, by its type, until the end."""
        return {}

    @cached_property
    def devices(self) -> "DeviceCalls":
        """Makes the calls on arrays on devices."""
        from collalgo.comm.devices.calls import DeviceCalls

        of_pair = self.context.pair is not None  # which needs no prices
        found = DeviceCalls(
            self.programs, self.hosts, weakref.ref(self), self.recovery, not of_pair
        )
        self._release_devices = finalize(self, found.close)
        self._release_devices.atexit = False
        return found

    @property
    def label(self) -> str:
        """The name of the communicator in dumps."""
        return self.context.label

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for the other ranks before it raises."""
        return math.inf if self.seconds < 0 else self.seconds

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self.seconds = seconds(timeout)

    def exchange(
        self,
        mine: NDArray[Any],
        call: str,
        timeout: float | None = None,
        *,
        counted: int = PART_OF_NEXT,
        within_call: bool = False,
    ) -> NDArray[Any]:
        """The arrays of all ranks, all alike, which the library needs for a call.

        It takes place at once, even while a call is prepared for the background.
        :class:`Program` has the values of ``counted``; ``within_call`` is that of
        :meth:`run_for`.
        """
        program = self.programs.exchange_for(call, mine.nbytes, counted)
        found = np.empty((self.size, *mine.shape), mine.dtype)
        self._run(program, mine, found, timeout, call, within_call)
        return found

    def exchange_as_call(
        self, mine: NDArray[Any], call: str, timeout: float | None = None
    ) -> NDArray[Any]:
        """The same for a call that is an exchange, or begins with one."""
        return self.exchange(mine, call, timeout, counted=WHOLE_CALL)

    def exchange_bytes(
        self, mine: bytes, call: str, collective: str = "allgather"
    ) -> list[bytes]:
        """The bytes of all ranks, of any lengths, for a call that begins with this.

        By a gather only rank 0 gets them.
        """
        lengths = self.exchange_as_call(np.array([len(mine)]), call)[:, 0].tolist()
        content, found = np.frombuffer(mine, np.uint8), None
        if collective == "allgather" or self.rank == 0:
            found = np.empty(sum(lengths), np.uint8)
        made = Call(collective, content.dtype, len(mine), counts=tuple(lengths))
        self.run_for(call, made, content, found, counted=PART_OF_LAST)
        parts = [] if found is None else np.split(found, np.cumsum(lengths)[:-1])
        return [part.tobytes() for part in parts]

    def waiting(self, timeout: float | None) -> float:
        """Seconds that a call with a timeout waits, negative for no limit."""
        return self.seconds if timeout is None else seconds(timeout)

    def run_for(
        self,
        name: str,
        call: Call,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        *,
        counted: int = WHOLE_CALL,
        timeout: float | None = None,
        within_call: bool = False,
    ) -> None:
        """Make a call that the library needs for one of the user, under its name.

        The arrays are contiguous. :class:`Program` has the values of ``counted``.
        With ``within_call`` it is a part of a call in the background whose turn it is.
        """
        self.check_open(name)
        program = self.programs.named(call, EXCHANGE + name, counted)
        self._run(program, source, target, timeout, name, within_call)

    def _run(
        self,
        program: Program,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        timeout: float | None,
        name: str,
        within_call: bool,
    ) -> None:
        """Run a program within a call whose turn it is, or as one of its own."""
        run = self.run if within_call else self.run_now
        run(program, source, target, self.waiting(timeout), name)

    def check_background(self, call: str) -> None:
        """Check that calls can run in the background, in a thread of their own.

        Raises
        ------
        CollalgoError
            If the engine between the hosts allows calls from one thread only.
        """
        if self.context.one_thread:
            refuse_background(self.rank, call)

    def check_open(self, call: str) -> None:
        """Check that calls can be made.

        Raises
        ------
        CommunicatorClosed
            If the communicator is closed, or was made before the process forked.
        """
        self.recovery.check_open(call)

    @property
    def call_number(self) -> int:
        """The number of the latest call of the user; 0 before the first."""
        shared = self.context.shared
        last = shared.call(shared.rank)
        return int(last["number"]) if last else 0

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        transport = self.context.transport
        return not (transport.closed or transport.forked)

    @property
    def forked(self) -> bool:
        """Whether it belongs to the parent of this forked process."""
        return self.context.transport.forked

    def subgroup(self, context: Context, members: Sequence[int] = ()) -> Context:
        """The context of some of the ranks, with the host profile of all.

        Where they are known, they have the machines of :meth:`replan`, too.
        """
        context.machine = self.programs.host_profile
        if members and self._replaced is not None:
            context.placed = partial(self._replaced.of, members)
        return context

    def replan(self, placed: "PlacedTopology | None") -> None:
        """Choose the algorithms of all further calls by other machines, or again.

        The calls in the background have ended.
        """
        self._replaced = placed
        self.programs.replan(None if placed is None else lambda: placed)

    def close(self) -> CollalgoError | None:
        """Fail the calls that have not ended, and release the memory.

        Returns
        -------
        CollalgoError or None
            The error if the calls of the ranks are found to have differed.
        """
        detached = self._release.detach()
        if detached is not None:
            for words in leftovers(self.context, self.progress, self.recovery, 0.0):
                from logging import getLogger  # here, as few processes need it

                getLogger("collalgo").warning("close: %s", words)
        self.kept.clear()
        error = None if detached is None else release(self.context, self.progress)
        self.programs.release()
        if self._release_devices is not None:
            self._release_devices()
        return error


def refuse_background(rank: int, call: str, *_: object, **_named: object) -> NoReturn:
    """Refuse a call that needs a thread of its own."""
    raise CollalgoError(
        f"{call}: MPI was initialised for calls from its main thread only "
        "(MPI_THREAD_SINGLE or MPI_THREAD_FUNNELED), but this call needs a thread of "
        "its own; set mpi4py.rc.thread_level = 'serialized' or 'multiple' before "
        "mpi4py.MPI is imported",
        rank=rank,
        collective=call,
    )
