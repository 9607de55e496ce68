"""The rendezvous of the threads of one process."""

import os
from collections.abc import Sequence
from itertools import count
from weakref import WeakSet

from collalgo._kernels.engine.transport.segment import Segment
from collalgo.base.finalizers import Lock
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.host_memory import HostMemory
from collalgo.bootstrap.rendezvous import world_of
from collalgo.engine.transport import thread
from collalgo.engine.transport.waiting import cores

_numbers = count()  # of worlds, so that no two have one name


class ThreadRendezvous:
    """Threads that share this object; each receives its transport of their world."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._name = f"threads {os.getpid()} {next(_numbers)}"
        self._segment: Segment | None = None
        self._cores: int | None = None
        self._memories: WeakSet[HostMemory] = WeakSet()

    def connect(self, _name: str, rank: int, members: Sequence[int]) -> Context:
        """Connect with all other threads, as their world."""
        with self._lock:
            if self._segment is None:  # which is made only once
                self._segment = thread.memory(len(members))
                self._cores = cores()
            processes = [os.getpid()] * len(members)
            memory = HostMemory(self._segment, rank, processes, cores=self._cores)
            self._memories.add(memory)
        return world_of(memory, self._name, members)

    def abort(self, reason: str) -> None:
        """Make all calls on all worlds of these threads fail."""
        with self._lock:
            for memory in self._memories:
                memory.abort(reason)
