"""Buffers for sends of copies: the library copies anyway, so they are only kept."""

from typing import Any

from collalgo.integrations.as_mpi4py.buffers import Buffer
from collalgo.integrations.as_mpi4py.memory import BUFFER_AUTOMATIC, memory_of
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.requests import Request


def _kept(buf: Any) -> Any:
    """A buffer that is attached."""
    if buf is None or buf is BUFFER_AUTOMATIC:
        return buf
    memory_of(buf, writable=True)  # which raises
    return Buffer.frombuffer(buf)


def attach_buffer(buf: Any) -> None:
    """Attach a buffer for sends of copies."""
    PROCESS.attached = _kept(buf)


def detach_buffer() -> Any:
    """Wait for the sends of copies, and detach the buffer."""
    PROCESS.flush()
    found, PROCESS.attached = PROCESS.attached, None
    return found


def flush_buffer() -> None:
    """Wait for the sends of copies."""
    PROCESS.flush()


def iflush_buffer() -> Any:
    """As :func:`flush_buffer`, with a completed request."""
    PROCESS.flush()
    return Request.of(Operation())


class HasBuffer:
    """Something with a buffer of its own for sends of copies; a mixin of handles."""

    state: Any

    def Attach_buffer(self, buf: Any) -> None:
        """Attach a buffer for sends of copies."""
        self.state.attached = _kept(buf)

    def Detach_buffer(self) -> Any:
        """Wait for the sends of copies, and detach the buffer."""
        PROCESS.flush()
        found, self.state.attached = self.state.attached, None
        return found

    def Flush_buffer(self) -> None:
        """Wait for the sends of copies."""
        PROCESS.flush()

    def Iflush_buffer(self) -> Any:
        """As :meth:`Flush_buffer`, with a completed request."""
        return iflush_buffer()
