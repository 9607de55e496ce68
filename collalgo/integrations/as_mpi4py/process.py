"""The process as a program sees it: when it joins and leaves, and its messages."""

import atexit
import math
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from collalgo.base.environment import TIMEOUT
from collalgo.comm.world import init
from collalgo.errors import CollalgoError
from collalgo.integrations.as_mpi4py import exits
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.finalized import FINALIZE
from collalgo.integrations.as_mpi4py.matching import Matching


class Process:
    """State that exists once in each process.

    Attributes
    ----------
    world
        The communicator of all ranks; None before :meth:`start`.
    matching : Matching
        Its messages.
    is_finalized : bool
        Whether the program has left.
    buffered : list of Operation
        The sends of copies that may not have ended.
    attached
        The buffer that the program has attached for them.
    last_calls : list of callable
        What precedes the end.
    main_thread : Thread
        The thread that joined.
    """

    def __init__(self) -> None:
        self.world: Any = None
        self._matching: Matching | None = None
        self.is_finalized = False
        self.buffered: list[Any] = []
        self.attached: Any = None
        self.last_calls: list[Callable[[], None]] = []
        self.main_thread = threading.main_thread()

    @property
    def matching(self) -> Matching:
        """The messages of this process.

        Raises
        ------
        MPI.Exception
            If the program has not joined, or has left.
        """
        if self._matching is None or self.is_finalized:
            fail("ERR_OTHER", "call MPI.Init() before messages, and Finalize() after")
        return self._matching

    def start(self) -> Any:
        """Join the world: the communicator of all ranks.

        A program of MPI may wait for a rank as long as it likes, so calls have no
        timeout, unless ``COLLALGO_TIMEOUT`` sets one.
        """
        given = os.environ.get(TIMEOUT.name)
        self.main_thread = threading.current_thread()
        self.world = init(timeout=None if given else math.inf)
        self._matching = Matching(self.world)
        atexit.register(self._end)
        exits.watch()
        return self.world

    def finish(self) -> None:
        """Leave the world when all ranks do, and all messages have been received.

        No call of a program has the name by which the ranks wait for each other.
        """
        if self.world is None or self.is_finalized:
            return
        for call in self.last_calls:
            call()
        self.is_finalized = True
        runner = self.world._runner
        with suppress(CollalgoError):
            if (last_calls := runner.context.last_calls) is not None:
                last_calls.announce()
            runner.exchange_as_call(np.zeros(1, np.uint8), FINALIZE)
        atexit.unregister(self._end)

    def _end(self) -> None:
        """Leave the world as the process ends; if it fails, without the others."""
        reason = exits.failure()
        if reason is None:
            self.finish()
        elif not self.is_finalized:
            self.world.abort(reason, with_groups=True)

    def keep(self, sent: Any) -> None:
        """Keep a send of a copy, with its memory, until it has ended."""
        self.buffered = [each for each in self.buffered if not each.is_over()]
        self.buffered.append(sent)

    def flush(self) -> None:
        """Wait for the sends of copies."""
        while self.buffered:
            self.buffered.pop().wait()

    def abort(self, code: int) -> None:
        """End this process with a status that is not 0; calls of other ranks fail.

        Of the code the status has the lowest eight bits.
        """
        try:
            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):  # None, or closed
                    stream.flush()
            if self.world is not None:
                reason = f"the program called Abort({code})"
                self.world.abort(reason, with_groups=True)
        finally:
            os._exit(code & 0xFF or 1)


#: This process.
PROCESS = Process()


def is_thread_main() -> bool:
    """Whether the calling thread is that which joined."""
    return threading.current_thread() is PROCESS.main_thread


def thread_level() -> int:
    """The level of thread support: all threads may call at any time."""
    return NUMBERS["THREAD_MULTIPLE"]
