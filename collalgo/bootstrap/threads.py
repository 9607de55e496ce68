"""The rendezvous of the threads of one process."""

from collections.abc import Sequence
from threading import Lock
from weakref import WeakSet

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.bootstrap.context import Context, label_of
from collalgo.engine.transport import thread


class ThreadRendezvous:
    """Threads that share this object; each receives its transport of a world."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, list[SharedMemory | None]] = {}
        self._connected: WeakSet[SharedMemory] = WeakSet()

    def connect(
        self, name: str, rank: int, members: Sequence[int], _timeout: float = 0
    ) -> Context:
        """Connect with the threads that call with the same name, as a world."""
        with self._lock:
            if name not in self._waiting:  # whose memory is made only once
                self._waiting[name] = list(thread.world(len(members)))
            ends = self._waiting[name]
            transport, ends[rank] = ends[rank], None
            if not any(ends):
                del self._waiting[name]
            assert transport is not None
            self._connected.add(transport)
        label = label_of(str(id(self)), name)
        return Context(transport, _Nested(self, name), label=label)

    def abort(self, reason: str) -> None:
        """Make all calls on all worlds of these threads fail."""
        with self._lock:
            for transport in self._connected:
                transport.close(reason, failed=True)


class _Nested:
    """The rendezvous of the threads of one world, whose name precedes all names."""

    def __init__(self, threads: ThreadRendezvous, name: str):
        self._threads = threads
        self._name = name

    def connect(
        self, name: str, rank: int, members: Sequence[int], _timeout: float = 0
    ) -> Context:
        return self._threads.connect(f"{self._name}/{name}", rank, members)
