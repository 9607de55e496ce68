"""The records of ranks and buffers that are exchanged before a call."""

import struct
from typing import NamedTuple

from collalgo.engine.devices.operations import BUFFERS
from collalgo.engine.devices.runtime import Export, Runtime

#: The record of a buffer: a handle, the offset in it, and the address.
HANDLE = 64
_BUFFER = struct.Struct(f"={HANDLE}sqq")
_HEAD = struct.Struct("=qqq32s")
OFFER = _HEAD.size + len(BUFFERS) * _BUFFER.size

#: The record of a missing buffer.
NOTHING = Export(b"", 0)


class BufferExchange(NamedTuple):
    """The record of a rank and its buffers.

    Attributes
    ----------
    process, device : int
        Its process, and the number of the device of the buffers.
    bus : bytes
        The bus id of the device.
    mappable : bool
        Whether other processes can map all buffers.
    exports, pointers : list
        The exported handle of each buffer, and its address in its own process.
    """

    process: int
    device: int
    bus: bytes
    mappable: bool
    exports: list[Export]
    pointers: list[int]

    def pack(self) -> bytes:
        parts = [_HEAD.pack(self.process, self.device, self.mappable, self.bus)]
        for export, pointer in zip(self.exports, self.pointers, strict=True):
            parts.append(_BUFFER.pack(export.handle, export.offset, pointer))
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> "BufferExchange":
        process, device, mappable, bus = _HEAD.unpack_from(data)
        found = list(_BUFFER.iter_unpack(data[_HEAD.size :]))
        exports = [Export(handle, offset) for handle, offset, _ in found]
        pointers = [pointer for _, _, pointer in found]
        return cls(
            process, device, bus.rstrip(b"\0"), bool(mappable), exports, pointers
        )


def bus_of(runtime: Runtime) -> bytes:
    """The bus id of the device of a rank, as in its record."""
    return runtime.bus_id.lower().encode()
