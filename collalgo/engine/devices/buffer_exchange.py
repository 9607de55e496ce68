"""What ranks tell each other of themselves and their buffers before a call."""

import struct
from typing import NamedTuple

from collalgo.engine.devices.operations import BUFFERS
from collalgo.engine.devices.runtime import Export, Runtime

#: A buffer as ranks tell of it: a handle, the place within it, and the address.
HANDLE = 64
_BUFFER = struct.Struct(f"={HANDLE}sqq")
_HEAD = struct.Struct("=qqq32s")
OFFER = _HEAD.size + len(BUFFERS) * _BUFFER.size

#: A buffer that there is not.
NOTHING = Export(b"", 0)


class BufferExchange(NamedTuple):
    """What a rank tells the others of itself and its buffers.

    Attributes
    ----------
    process, device : int
        Its process, and which of its devices the buffers are on.
    bus : bytes
        Where on the bus of the host that is.
    mappable : bool
        Whether others can map all of the buffers.
    exports, pointers : list
        How to map each buffer, and where it is in its own process.
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
    """Where on the bus of its host the device of a rank is, as it tells others."""
    return runtime.bus_id.lower().encode()
