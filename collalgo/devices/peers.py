"""What ranks tell each other of their buffers, and where these are for each of them."""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from collalgo.arrays import Array
from collalgo.devices.operations import OUTBOX, DeviceProgram
from collalgo.devices.runtime import Export, Memory, Runtime
from collalgo.rows import INPUT, OUTPUT, SCRATCH

#: The buffers of a rank that others may map: those of a program, and its flags.
FLAGS = OUTBOX + 1
BUFFERS = (INPUT, OUTPUT, SCRATCH, OUTBOX, FLAGS)

#: A buffer as ranks tell of it: a handle, the place within it, and the address.
HANDLE = 64
_BUFFER = struct.Struct(f"={HANDLE}sqq")
_HEAD = struct.Struct("=qq")
OFFER = _HEAD.size + len(BUFFERS) * _BUFFER.size

#: A buffer that there is not.
NOTHING = Export(b"", 0)


class Offer(NamedTuple):
    """What a rank tells the others of itself and its buffers.

    Attributes
    ----------
    process : int
        Its process.
    mappable : bool
        Whether others can map all of the buffers.
    exports, pointers : list
        How to map each buffer, and where it is in its own process.
    """

    process: int
    mappable: bool
    exports: list[Export]
    pointers: list[int]

    def pack(self) -> bytes:
        parts = [_HEAD.pack(self.process, self.mappable)]
        for export, pointer in zip(self.exports, self.pointers, strict=True):
            parts.append(_BUFFER.pack(export.handle, export.offset, pointer))
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> "Offer":
        process, mappable = _HEAD.unpack_from(data)
        found = list(_BUFFER.iter_unpack(data[_HEAD.size :]))
        exports = [Export(handle, offset) for handle, offset, _ in found]
        return cls(process, bool(mappable), exports, [p for _, _, p in found])


class Peers:
    """The buffers of all ranks, as this one can reach them.

    Parameters
    ----------
    hosts
        The number of the host of each.
    flag_bytes
        The bytes of the flags of a rank.
    """

    def __init__(self, hosts: Sequence[int], flag_bytes: int):
        self._size = len(hosts)
        self._near = len(set(hosts)) == 1
        self._flag_bytes = flag_bytes
        self._own: dict[int, Memory] = {}
        self._mapped: dict[tuple[int, bytes], int] = {}
        self._runtime: Runtime | None = None

    def meet(
        self,
        runtime: Runtime,
        arrays: Sequence[int],
        program: DeviceProgram,
        exchange: Callable[[Array, Array], None],
    ) -> list[list[int]] | None:
        """Where each buffer of each rank is; None if somebody cannot map some.

        Parameters
        ----------
        runtime
            Of this rank.
        arrays
            The addresses of input and output of this rank, 0 if it has none.
        program
            That it is going to run.
        exchange
            Gathers arrays of the host from all ranks.
        """
        self._runtime = runtime
        pointers = [
            *arrays,
            self._room(runtime, SCRATCH, program.scratch_bytes),
            self._room(runtime, OUTBOX, program.outbox_bytes),
            self._room(runtime, FLAGS, self._flag_bytes),
        ]
        exports = [runtime.export(p) if p else NOTHING for p in pointers]
        mappable = self._near and all(export is not None for export in exports)
        handles = [export or NOTHING for export in exports]
        mine = Offer(runtime.process, mappable, handles, pointers).pack()
        everyone = np.empty((self._size, OFFER), np.uint8)
        exchange(np.frombuffer(mine, np.uint8), everyone)
        offers = [Offer.unpack(row.tobytes()) for row in everyone]
        if not all(offer.mappable for offer in offers):
            return None
        return [
            [self._address(runtime, rank, buffer, offer) for buffer in BUFFERS]
            for rank, offer in enumerate(offers)
        ]

    def close(self) -> None:
        """Unmap what others have, and let go of what others may map."""
        while self._mapped and self._runtime is not None:
            self._runtime.close(self._mapped.popitem()[1])
        self._own.clear()

    def _room(self, runtime: Runtime, buffer: int, nbytes: int) -> int:
        """A buffer of this rank that is large enough."""
        known = self._own.get(buffer)
        if known is None or known.shape[0] < nbytes:
            known = self._own[buffer] = runtime.zeros(max(nbytes, 256))
        return known.pointer

    def _address(self, runtime: Runtime, rank: int, buffer: int, offer: Offer) -> int:
        """Where a buffer of a rank is in this process."""
        pointer, export = offer.pointers[buffer], offer.exports[buffer]
        if pointer == 0 or offer.process == runtime.process:
            return pointer
        key = rank, export.handle
        if key not in self._mapped:
            self._mapped[key] = runtime.open(export.handle)
        return self._mapped[key] + export.offset
