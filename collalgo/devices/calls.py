"""Calls on arrays in the memory of devices.

Ranks tell each other where their arrays are, in a call of the host that is compared as
all calls are. Then each puts its part on its stream and returns; what follows on the
stream follows the call. Ranks whose memory others cannot map go by way of the host.
"""

import logging
import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from collalgo._kernels.engine import Program
from collalgo._kernels.transport import LANES
from collalgo.arrays import Array
from collalgo.devices.arrays import Shadow
from collalgo.devices.program import (
    OUTBOX,
    Combine,
    DeviceProgram,
    Flag,
    Place,
    Signal,
    lower,
)
from collalgo.devices.runtime import Export, Memory, Runtime
from collalgo.programs import REMEMBERED, Call, Programs
from collalgo.reduction import dtype_name
from collalgo.rows import INPUT, OUTPUT, SCRATCH

if TYPE_CHECKING:  # who imports this
    from collalgo.communicator import Communicator

#: The buffers of a rank that others may map: those of a program, and its flags.
FLAGS = OUTBOX + 1
BUFFERS = (INPUT, OUTPUT, SCRATCH, OUTBOX, FLAGS)

#: A buffer as ranks tell of it: a handle, the place within it, and the address.
HANDLE = 64
_BUFFER = struct.Struct(f"={HANDLE}sqq")
_HEAD = struct.Struct("=qq")
OFFER = _HEAD.size + len(BUFFERS) * _BUFFER.size

#: What all flags of 32 bits are counted by.
WRAP = 1 << 32

#: A buffer that there is not.
NOTHING = Export(b"", 0)

log = logging.getLogger("collalgo")


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


class Ours(NamedTuple):
    """The arrays of a call on this rank, of which there is one at least."""

    source: Shadow | None
    target: Shadow | None

    @property
    def runtime(self) -> Runtime:
        array = self.target if self.source is None else self.source
        assert array is not None
        return array.runtime


class DeviceCalls:
    """What a communicator does with arrays on devices.

    Parameters
    ----------
    programs
        Of this rank.
    hosts
        The number of the host of each rank.
    comm
        Refers to the communicator, which runs what goes by way of the host.
    """

    def __init__(
        self,
        programs: Programs,
        hosts: Sequence[int],
        comm: "Callable[[], Communicator | None]",
    ):
        self._programs = programs
        self._rank, self._size = programs.rank, programs.size
        self._comm = comm
        self._near = len(set(hosts)) == 1
        self._known: dict[Call, tuple[list[DeviceProgram], Program]] = {}
        self._own: dict[int, Memory] = {}
        self._mapped: dict[tuple[int, bytes], int] = {}
        self._counts: dict[Flag, int] = defaultdict(int)
        self._runtime: Runtime | None = None
        self._announced = False

    def call(
        self,
        fields: tuple[Any, ...],
        source: Array | None,
        target: Array | None,
        waiting: float,
        caller: str,
    ) -> None:
        """Make a call on arrays on a device.

        Raises
        ------
        TypeError
            If only one of the arrays is on a device.
        MismatchError
            If the ranks call different things, or some on arrays of the host.
        """
        call = self._programs.plain(Call(*fields))
        ours = Ours(_shadow(source, caller), _shadow(target, caller))
        programs, exchange = self._lowered(call)
        offers = self._exchanged(ours, programs[self._rank], exchange, waiting, caller)
        if self._near and all(offer.mappable for offer in offers):
            self._on_stream(call, ours, programs, offers)
        else:
            self._by_host(call, ours, waiting, caller)

    def close(self) -> None:
        """Unmap what others have, and let go of what others may map."""
        while self._mapped and self._runtime is not None:
            self._runtime.close(self._mapped.popitem()[1])
        self._own.clear()

    def _lowered(self, call: Call) -> tuple[list[DeviceProgram], Program]:
        """The programs of the devices, and that by which the ranks meet before."""
        try:
            return self._known[call]
        except KeyError:
            programs = lower(self._programs.plans(call))
            exchange = self._programs.exchange(call, OFFER)
            self._known[call] = programs, exchange
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return programs, exchange

    def _run(
        self, program: Program, source: Array | None, target: Array | None,
        waiting: float, caller: str,
    ) -> None:  # fmt: skip
        """Run a program on arrays of the host."""
        comm = self._comm()
        assert comm is not None
        comm.run(program, source, target, waiting, caller)

    # ---- where the buffers of all ranks are

    def _exchanged(
        self,
        ours: Ours,
        program: DeviceProgram,
        exchange: Program,
        waiting: float,
        caller: str,
    ) -> list[Offer]:
        """Tell the others where the buffers of this rank are, and hear of theirs."""
        self._runtime = ours.runtime
        self._grow(SCRATCH, program.scratch_bytes)
        self._grow(OUTBOX, program.outbox_bytes)
        self._grow(FLAGS, 4 * 2 * LANES * self._size)
        pointers = [
            0 if ours.source is None else ours.source.ctypes.data,
            0 if ours.target is None else ours.target.ctypes.data,
            *(self._own[buffer].pointer for buffer in (SCRATCH, OUTBOX, FLAGS)),
        ]
        exports = [NOTHING if p == 0 else ours.runtime.export(p) for p in pointers]
        offer = Offer(
            ours.runtime.process,
            all(export is not None for export in exports),
            [export or NOTHING for export in exports],
            pointers,
        )
        everyone = np.empty((self._size, OFFER), np.uint8)
        mine = np.frombuffer(offer.pack(), np.uint8)
        self._run(exchange, mine, everyone, waiting, caller)
        return [Offer.unpack(row.tobytes()) for row in everyone]

    def _grow(self, buffer: int, nbytes: int) -> None:
        """See that a buffer of this rank is large enough."""
        assert self._runtime is not None
        known = self._own.get(buffer)
        if known is None or known.shape[0] < nbytes:
            self._own[buffer] = self._runtime.zeros(max(nbytes, 256))

    def _address(self, rank: int, buffer: int, offer: Offer) -> int:
        """Where a buffer of a rank is in this process."""
        assert self._runtime is not None
        pointer, export = offer.pointers[buffer], offer.exports[buffer]
        if pointer == 0 or offer.process == self._runtime.process:
            return pointer
        key = rank, export.handle
        if key not in self._mapped:
            self._mapped[key] = self._runtime.open(export.handle)
        return self._mapped[key] + export.offset

    # ---- the two ways of a call

    def _on_stream(
        self,
        call: Call,
        ours: Ours,
        programs: Sequence[DeviceProgram],
        offers: Sequence[Offer],
    ) -> None:
        """Put the operations of this rank on its stream, and return."""
        bases = [
            [self._address(rank, buffer, offer) for buffer in BUFFERS]
            for rank, offer in enumerate(offers)
        ]
        for operation in programs[self._rank].operations:
            if isinstance(operation, Combine):
                self._combine(call, ours.runtime, operation, bases)
                continue
            flag, number = operation
            number = (self._counts[flag] + number) % WRAP
            place = self._place(flag, bases)
            if isinstance(operation, Signal):
                ours.runtime.write(place, number)
            else:
                ours.runtime.wait(place, number)
        last: dict[Flag, int] = {}
        for program in programs:
            for operation in program.operations:
                if isinstance(operation, Signal):
                    last[operation.flag] = operation.number
        for flag, number in last.items():
            self._counts[flag] += number

    def _combine(
        self,
        call: Call,
        runtime: Runtime,
        operation: Combine,
        bases: Sequence[Sequence[int]],
    ) -> None:
        def address(place: Place) -> int:
            return bases[place.rank][place.buffer] + place.at

        target = address(operation.target)
        sources = [address(place) for place in operation.sources]
        if len(sources) > 1 or operation.divide:
            count = operation.nbytes // call.dtype.itemsize
            divisor = self._size if operation.divide else 0
            name = dtype_name(call.dtype)
            runtime.reduce(name, call.op, target, sources, count, divisor)
        elif target != sources[0]:  # the output may be the input
            runtime.copy(target, sources[0], operation.nbytes)

    def _place(self, flag: Flag, bases: Sequence[Sequence[int]]) -> int:
        """Where a flag is: in the memory of who waits for it."""
        ends = flag.receiver, flag.sender
        holder, other = ends if flag.ready else ends[::-1]
        return bases[holder][FLAGS] + 4 * (
            (flag.lane * self._size + other) * 2 + flag.ready
        )

    def _by_host(self, call: Call, ours: Ours, waiting: float, caller: str) -> None:
        """Make the call on copies in the memory of the host."""
        if not self._announced:
            self._announced = True
            log.warning(
                "%s: the memory of the devices of these %d ranks cannot be mapped by "
                "all of them; their arrays go by way of the host",
                caller,
                self._size,
            )
        copies = {
            array.ctypes.data: _fetched(ours.runtime, array)
            for array in (ours.source, ours.target)
            if array is not None
        }
        source, target = (
            None if array is None else copies[array.ctypes.data]
            for array in (ours.source, ours.target)
        )
        self._run(self._programs.get(*call), source, target, waiting, caller)
        if ours.target is not None and target is not None:
            ours.runtime.to_device(ours.target.ctypes.data, _bytes(target))


def _shadow(array: Array | None, caller: str) -> Shadow | None:
    """An array that has to be on a device.

    Raises
    ------
    TypeError
        If it is not; then the other one of the call is.
    """
    if array is None or isinstance(array, Shadow):
        return array
    raise TypeError(
        f"{caller}: of buf and out one is on a device and one in the memory of the "
        "host; pass both from the same"
    )


def _fetched(runtime: Runtime, array: Shadow) -> Array:
    """A copy of an array of a device in the memory of the host."""
    found = np.empty(array.shape, array.dtype)
    runtime.to_host(array.ctypes.data, _bytes(found))
    return found


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
