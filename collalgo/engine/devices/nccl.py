"""Messages between devices over NCCL, by CuPy's binding."""

from collections.abc import Sequence
from typing import Any

from collalgo.engine.devices.runtime import Bytes


class Nccl:
    """The NCCL communicator of a rank; see :class:`~.runtime.Network`.

    Raises
    ------
    OSError
        If it cannot connect.
    """

    def __init__(self, identity: bytes, rank: int, size: int):
        self._library = _library()
        try:
            self._end = self._library.NcclCommunicator(size, identity, rank)
        except self._library.NcclError as error:
            raise OSError(str(error)) from error

    def exchange(
        self, stream: object, sends: Sequence[Bytes], receives: Sequence[Bytes]
    ) -> None:
        kind = self._library.NCCL_UINT8
        self._library.groupStart()
        try:
            for pointer, nbytes, peer in sends:
                self._end.send(pointer, nbytes, kind, peer, stream)
            for pointer, nbytes, peer in receives:
                self._end.recv(pointer, nbytes, kind, peer, stream)
        finally:
            self._library.groupEnd()

    def close(self) -> None:
        self._end.abort()  # pending operations will not complete


def version() -> str | None:
    """The name and version of NCCL; None without it."""
    library = _library()
    return f"NCCL {library.get_version()}" if library is not None else None


def identity() -> bytes:
    """A new identifier for a communicator."""
    return bytes(_library().get_unique_id())


def _library() -> Any:
    from cupy.cuda import nccl

    return nccl if getattr(nccl, "available", False) else None
