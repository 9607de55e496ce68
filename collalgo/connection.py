"""A rank's end of a world with all that belongs to it, and how long it waits."""

import math
import os
from collections.abc import Sequence
from typing import Protocol

from collalgo._kernels.shared_memory import SharedMemory
from collalgo.machine import Machine

#: Seconds that a call waits for the other ranks, unless told otherwise.
TIMEOUT = 300.0

#: Seconds that a rank waits for the others to come up.
JOIN_TIMEOUT = 60.0


class Origin(Protocol):
    """How a communicator came up, and how its groups can."""

    def meet(self, name: str, rank: int, size: int) -> "Connection": ...


class Connection:
    """An end of a world with all that is to be released with it."""

    def __init__(
        self,
        transport: SharedMemory,
        origin: Origin,
        machine: Machine | None = None,
        descriptors: Sequence[int] = (),
    ):
        self.transport = transport
        self.origin = origin
        self.machine = machine
        self.descriptors = list(descriptors)

    def release(self) -> None:
        """Tell the others, unmap the memory and close the descriptors."""
        self._leave("its communicator was closed", failed=False)

    def abort(self, reason: str) -> None:
        """Release because of an error, and tell the others the reason."""
        self._leave(reason, failed=True)

    def _leave(self, farewell: str, *, failed: bool) -> None:
        self.transport.close(farewell, failed)
        while self.descriptors:
            os.close(self.descriptors.pop())


def seconds(timeout: float) -> float:
    """A timeout as the engine takes it: negative to wait for ever."""
    if not timeout > 0:
        raise ValueError(f"timeout {timeout!r}: need seconds above 0, or math.inf")
    return -1.0 if math.isinf(timeout) else float(timeout)


def default_timeout() -> float:
    """The timeout of new communicators: ``COLLALGO_TIMEOUT`` or :data:`TIMEOUT`."""
    text = os.environ.get("COLLALGO_TIMEOUT") or str(TIMEOUT)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"COLLALGO_TIMEOUT={text!r} is no number of seconds") from None
