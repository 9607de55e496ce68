"""Handle the status of a program that did not succeed: pack arrays, raise errors."""

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

from collalgo._kernels.engine.pinning import pinned
from collalgo._kernels.engine.program import (
    RUN_BUSY,
    RUN_CLOSED,
    RUN_FAILED,
    RUN_FORKED,
    RUN_NEEDS_PACKING,
    Program,
)
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.descent import advice
from collalgo.comm.failures import in_signal_handler
from collalgo.comm.reasons import CLOSED
from collalgo.comm.tracing.dump import dump_failure
from collalgo.comm.world_failures import failure_error
from collalgo.engine.arrays import Array, packed
from collalgo.errors import CollalgoError, CommunicatorClosed

#: Runs a program: its source and target, its timeout, and the name of the call.
Run = Callable[[Program, Array | None, Array | None, float, str], None]


class Recovery:
    """Handles the status of programs that did not succeed.

    Attributes
    ----------
    has_raised : bool
        Whether a call in the foreground has failed, so that the user knows.
    """

    def __init__(self, context: Context):
        self.has_raised = False
        self.context = context
        self.transport = context.transport

    def interrupted(self, caller: str, error: BaseException) -> None:
        """Announce that this rank has left the call named ``caller``."""
        what = type(error).__name__
        self.context.abort(f"it was interrupted in {caller} by {what}")

    def handle_status(
        self,
        program: Program,
        source: Array | None,
        target: Array | None,
        waiting: float,
        caller: str,
        status: int,
        run: Callable[..., None] | None,
        in_foreground: bool = False,
    ) -> None:
        """Pack the arrays of a program that needs it, or raise the error.

        The first program of a call in the background has no ``run``: its arrays are
        packed.

        Raises
        ------
        CollalgoError
            If the calls of the ranks differ, or a rank has left or is late.
        """
        if status == RUN_NEEDS_PACKING and run is not None:
            run = partial(run, in_foreground=in_foreground)
            _run_packed(program, source, target, waiting, caller, run)
        else:
            self.has_raised |= in_foreground
            self.raise_failure(caller, status)

    def raise_failure(self, caller: str, status: int) -> None:
        """Raise the error of a call that did not succeed."""
        if status == RUN_FAILED:
            dump_failure()
            failure = self._failure(caller)
            if failure.get("exit_reason") == CLOSED:
                self._check_open_here(caller, failure["culprit"])
            raise failure_error(self.context, failure)
        if status == RUN_BUSY:
            raise self._busy(caller)
        assert status in (RUN_CLOSED, RUN_FORKED)
        self.check_open(caller)

    def _failure(self, caller: str) -> dict[str, Any]:
        """The failure of the world, unless another thread has closed it meanwhile."""
        try:
            return self.context.failure()
        except ValueError:
            self.check_open(caller)
            raise

    def _check_open_here(self, caller: str, culprit: int) -> None:
        """Check that the rank that has closed the communicator is another one."""
        if culprit == self.transport.rank:
            raise CommunicatorClosed(
                f"{caller}: this rank has closed this communicator during the call; "
                "close it when its calls have ended",
                rank=culprit,
                collective=caller,
            )

    def _busy(self, caller: str) -> CollalgoError:
        """The error of a call while another one runs."""
        rank = self.transport.rank
        if self.transport.handler == get_ident():
            return in_signal_handler(rank, caller)
        return CollalgoError(
            f"{caller}: rank {rank} is in another call on this communicator, in "
            "another thread; use one communicator for each thread (comm.dup())",
            rank=rank,
            collective=caller,
        )

    def check_open(self, caller: str) -> None:
        if self.transport.forked:
            raise CommunicatorClosed(
                f"{caller}: this communicator was made before the process forked, and "
                f"only the parent can use it; {advice()}",
                rank=self.transport.rank,
                collective=caller,
            )
        if self.transport.closed:
            raise self.closed(caller)

    def closed(self, caller: str) -> CommunicatorClosed:
        """The error of a call on a closed communicator."""
        return CommunicatorClosed(
            f"{caller}: this communicator is closed; make a new one",
            rank=self.transport.rank,
            collective=caller,
        )


def _run_packed(
    program: Program,
    source: Array | None,
    target: Array | None,
    waiting: float,
    caller: str,
    run: Run,
) -> None:
    """Run a program on contiguous copies of its arrays."""
    pins = pinned(source, target)
    ours, result = packed(source, target, caller)
    run(program, ours, result, waiting, caller)
    if target is not None:
        target[...] = result
    del pins  # only now may they be resized
