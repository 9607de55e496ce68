"""The rendezvous of the threads of one process."""

from collections.abc import Sequence
from threading import Lock
from weakref import WeakSet

from collalgo._kernels.shared_memory import SharedMemory
from collalgo.connection import Connection, label_of
from collalgo.transport import thread


class ThreadOrigin:
    """Threads that share a hall, where each picks up its end of a world."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, list[SharedMemory | None]] = {}
        self._handed_out: WeakSet[SharedMemory] = WeakSet()

    def meet(
        self, name: str, rank: int, members: Sequence[int], _timeout: float = 0
    ) -> Connection:
        """My end of the world that all who call with the same name share."""
        with self._lock:
            ends = self._waiting.setdefault(name, list(thread.world(len(members))))
            transport, ends[rank] = ends[rank], None
            if not any(ends):
                del self._waiting[name]
            assert transport is not None
            self._handed_out.add(transport)
        label = label_of(str(id(self)), name)
        return Connection(transport, _Nested(self, name), label=label)

    def abort(self, reason: str) -> None:
        """Let all calls on all worlds of this hall fail."""
        with self._lock:
            for transport in self._handed_out:
                transport.close(reason, failed=True)


class _Nested:
    """The hall as seen from one of its worlds: names are within that world."""

    def __init__(self, hall: ThreadOrigin, name: str):
        self._hall = hall
        self._name = name

    def meet(
        self, name: str, rank: int, members: Sequence[int], _timeout: float = 0
    ) -> Connection:
        return self._hall.meet(f"{self._name}/{name}", rank, members)
