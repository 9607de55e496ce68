"""Run programs on a connection, and turn what becomes of them into errors."""

from typing import NamedTuple

import numpy as np

from collalgo._kernels.engine import (
    RUN_BUSY,
    RUN_CLOSED,
    RUN_DONE,
    RUN_FAILED,
    RUN_FORKED,
    RUN_NEEDS_PACKING,
    RUN_NEEDS_SCRATCH,
    Program,
)
from collalgo.arrays import Array, check_writeable
from collalgo.connection import Connection, seconds
from collalgo.errors import CollalgoError, CommunicatorClosed
from collalgo.failures import error_of


class Attempt(NamedTuple):
    """The arguments of a run that has not worked at once."""

    program: Program
    source: Array | None
    target: Array | None
    timeout: float | None
    caller: str


class Runner:
    """Runs the programs of one communicator, one at a time.

    Attributes
    ----------
    seconds : float
        How long a call waits for the other ranks; negative for ever.
    """

    def __init__(self, connection: Connection, waiting: float):
        self.connection = connection
        self.transport = connection.transport
        self.seconds = waiting
        self._scratch = np.empty(0, np.uint8)

    def run(
        self,
        program: Program,
        source: Array | None,
        target: Array | None,
        timeout: float | None,
        caller: str,
    ) -> None:
        """Run a program for the call named ``caller``.

        Raises
        ------
        CollalgoError
            If the ranks do not agree, are gone or not there in time.
        """
        waiting = self.seconds if timeout is None else seconds(timeout)
        try:
            status = program.run(self.transport, source, target, self._scratch, waiting)
        except BaseException as error:
            what = type(error).__name__
            self.connection.abort(f"it was interrupted in {caller} by {what}")
            raise
        if status != RUN_DONE:
            self._cope(status, Attempt(program, source, target, timeout, caller))

    def _cope(self, status: int, attempt: Attempt) -> None:
        """Give the program what it lacks and run it, or say why it cannot run."""
        caller, target, rank = attempt.caller, attempt.target, self.transport.rank
        if status == RUN_NEEDS_SCRATCH:
            self._scratch = np.empty(attempt.program.plan.scratch_bytes, np.uint8)
            self.run(*attempt)
        elif status == RUN_NEEDS_PACKING:
            if target is not None:
                name = "buf" if target is attempt.source else "out"
                check_writeable(target, name, caller)
            self._run_packed(attempt)
        elif status == RUN_FAILED:
            raise error_of(self.transport)
        elif status == RUN_BUSY:
            raise CollalgoError(
                f"{caller}: rank {rank} is in another call on this communicator, in "
                "another thread; use one communicator for each thread (comm.dup())",
                rank=rank,
                collective=caller,
            )
        else:
            assert status in (RUN_CLOSED, RUN_FORKED)
            self.check_open(caller)

    def _run_packed(self, attempt: Attempt) -> None:
        """Run on contiguous copies of arrays that are not contiguous or aligned."""
        source, target = attempt.source, attempt.target
        packed_source = None if source is None else np.array(source, order="C")
        packed_target = packed_source
        if target is not source:
            packed_target = None if target is None else np.empty_like(target, order="C")
        self.run(*attempt._replace(source=packed_source, target=packed_target))
        if target is not None:
            target[...] = packed_target

    def check_open(self, caller: str) -> None:
        if self.transport.forked:
            raise CommunicatorClosed(
                f"{caller}: this communicator was made before the process forked, and "
                "only the parent can use it; call collalgo.init() in the child",
                rank=self.transport.rank,
                collective=caller,
            )
        if self.transport.closed:
            raise CommunicatorClosed(
                f"{caller}: this communicator is closed; make a new one",
                rank=self.transport.rank,
                collective=caller,
            )
