"""The rendezvous of the threads of one process."""

from collections.abc import Sequence
from threading import Lock
from weakref import WeakSet

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.bootstrap.context import Context, label_of
from collalgo.engine.transport import thread


class ThreadRendezvous:
    """Threads that share a hall, where each picks up its end of a world."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, list[SharedMemory | None]] = {}
        self._handed_out: WeakSet[SharedMemory] = WeakSet()

    def connect(
        self, name: str, rank: int, members: Sequence[int], _timeout: float = 0
    ) -> Context:
        """My end of the world that all who call with the same name share."""
        with self._lock:
            ends = self._waiting.setdefault(name, list(thread.world(len(members))))
            transport, ends[rank] = ends[rank], None
            if not any(ends):
                del self._waiting[name]
            assert transport is not None
            self._handed_out.add(transport)
        label = label_of(str(id(self)), name)
        return Context(transport, _Nested(self, name), label=label)

    def abort(self, reason: str) -> None:
        """Let all calls on all worlds of this hall fail."""
        with self._lock:
            for transport in self._handed_out:
                transport.close(reason, failed=True)


class _Nested:
    """The hall as seen from one of its worlds: names are within that world."""

    def __init__(self, hall: ThreadRendezvous, name: str):
        self._hall = hall
        self._name = name

    def connect(
        self, name: str, rank: int, members: Sequence[int], _timeout: float = 0
    ) -> Context:
        return self._hall.connect(f"{self._name}/{name}", rank, members)
