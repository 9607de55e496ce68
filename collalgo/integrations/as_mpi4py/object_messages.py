"""Messages of objects of Python, which move as pickles."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.pickling import PICKLE, object_of, object_target
from collalgo.integrations.as_mpi4py.point_to_point import BufferMessages
from collalgo.integrations.as_mpi4py.requests import Request
from collalgo.integrations.as_mpi4py.sending import (
    BUFFERED,
    STANDARD,
    SYNCHRONOUS,
    finished,
)


def bytes_of(obj: Any, dest: int = 0) -> Bytes:
    """The bytes of an object; none for no rank."""
    data = b"" if dest == PROC_NULL else PICKLE.dumps(obj)
    return np.frombuffer(data, np.uint8)


def _warn_of_buffer(buf: Any) -> None:
    """Warn of a first argument that may have been meant as the source."""
    if buf is not None:
        warnings.warn(
            "the first argument of recv is a buffer, which is not needed; pass the "
            "source as source=",
            UserWarning,
            stacklevel=4,
        )


def _sends(mode: str) -> list[Callable[..., Any]]:
    """The two calls that send an object in a mode."""

    @raises_mpi_exceptions
    def send(self: Any, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object to a rank."""
        finished(self.send_bytes(bytes_of(obj, dest), dest, tag, mode))

    @raises_mpi_exceptions
    def isend(self: Any, obj: Any, dest: int, tag: int = 0) -> Any:
        """Send an object to a rank in the background."""
        return Request.of(self.send_bytes(bytes_of(obj, dest), dest, tag, mode))

    return [send, isend]


class ObjectMessages(BufferMessages):
    """The messages of objects; a mixin of communicators."""

    send, isend = _sends(STANDARD)
    bsend, ibsend = _sends(BUFFERED)
    ssend, issend = _sends(SYNCHRONOUS)

    def _receive_object(self, source: int, tag: int) -> Operation:
        return self.receive_bytes(source, tag, object_target, finish=object_of)

    @raises_mpi_exceptions
    def recv(
        self,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Any = None,
    ) -> Any:
        """Receive an object; a buffer for its pickle is not needed."""
        _warn_of_buffer(buf)
        return finished(self._receive_object(source, tag), status)

    @raises_mpi_exceptions
    def irecv(
        self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Any:
        """Receive an object in the background: ``wait`` returns it."""
        _warn_of_buffer(buf)
        return Request.of(self._receive_object(source, tag))

    @raises_mpi_exceptions
    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Any = None,
    ) -> Any:
        """Send an object and receive one."""
        del recvbuf
        data = bytes_of(sendobj, dest)
        received = self._receive_object(source, recvtag)
        return finished(self.send_beside(received, data, dest, sendtag), status)

    probe, iprobe = BufferMessages.Probe, BufferMessages.Iprobe
    mprobe, improbe = BufferMessages.Mprobe, BufferMessages.Improbe
