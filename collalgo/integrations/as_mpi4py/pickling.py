"""How objects become bytes and back."""

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.buffers import Buffer
from collalgo.integrations.as_mpi4py.memory import Bytes


class Pickle:
    """How objects become bytes and back; ``MPI.Pickle``.

    Parameters
    ----------
    dumps, loads
        The two functions; by default those of ``pickle``.
    protocol
        The protocol of ``dumps``; by default the highest one.
    threshold
        The fewest bytes of a buffer that :meth:`dumps_oob` leaves outside.
    """

    PROTOCOL: int | None

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[..., Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ):
        self.THRESHOLD = threshold
        self._dumps, self._loads = dumps or pickle.dumps, loads or pickle.loads
        is_own = self._dumps is pickle.dumps
        self.PROTOCOL = pickle.HIGHEST_PROTOCOL if is_own else protocol
        if protocol is not None:
            self.PROTOCOL = protocol

    @property
    def THRESHOLD(self) -> int:
        """The fewest bytes of a buffer that stays outside; by default 256 KiB."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._threshold = 1 << 18 if threshold is None else threshold

    def dumps(self, obj: Any) -> bytes:
        """The bytes of an object."""
        if self.PROTOCOL is None:
            return self._dumps(obj)
        return self._dumps(obj, self.PROTOCOL)

    def loads(self, data: Any) -> Any:
        """The object of some bytes."""
        return self._loads(data)

    def dumps_oob(self, obj: Any) -> tuple[bytes, list[Buffer]]:
        """The bytes of an object, and its long buffers, which stay where they are."""
        found: list[Buffer] = []

        def inside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < self.THRESHOLD:
                return True
            found.append(Buffer.frombuffer(raw))
            return False

        return self._dumps(obj, 5, buffer_callback=inside), found

    def loads_oob(self, data: Any, buffers: Iterable[Any]) -> Any:
        """The object of some bytes and its long buffers."""
        return self._loads(data, buffers=buffers)


#: What all calls on objects use.
PICKLE = Pickle()


def pickles_of(objects: Iterable[Any] | None, number: int) -> list[bytes]:
    """The pickles of the objects for some ranks; of None for all of them if None."""
    given = [None] * number if objects is None else objects
    return [PICKLE.dumps(each) for each in given]


def object_of(data: Bytes) -> Any:
    """The object of a message; no bytes are None."""
    return PICKLE.loads(data.data) if len(data) else None


def object_target(nbytes: int) -> tuple[Bytes, None]:
    """An array for the bytes of an object."""
    return np.empty(nbytes, np.uint8), None
