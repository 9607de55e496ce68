"""Calls on arrays in the memory of devices.

Ranks tell each other where their arrays are, in a call of the host that is compared as
all calls are. Then each puts its part on its stream and returns; what follows on the
stream follows the call. Ranks whose memory others cannot map go by way of the host.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from collalgo._kernels.engine import Program
from collalgo._kernels.transport import LANES
from collalgo.arrays import Array
from collalgo.call import Call
from collalgo.devices.arrays import Shadow
from collalgo.devices.operations import Combine, DeviceProgram, Flag, Place, Signal
from collalgo.devices.peers import FLAGS, OFFER, Peers
from collalgo.devices.program import lower
from collalgo.devices.runtime import Runtime
from collalgo.programs import Programs, make_room
from collalgo.reduction import dtype_name

if TYPE_CHECKING:  # who imports this
    from collalgo.communicator import Communicator

#: What all flags of 32 bits are counted by.
WRAP = 1 << 32

log = logging.getLogger("collalgo")


class Ours(NamedTuple):
    """The arrays of a call on this rank, of which there is one at least."""

    source: Shadow | None
    target: Shadow | None

    @property
    def runtime(self) -> Runtime:
        array = self.target if self.source is None else self.source
        assert array is not None
        return array.runtime

    @property
    def addresses(self) -> list[int]:
        """Where they are on the device, 0 for one that there is not."""
        return [0 if array is None else array.ctypes.data for array in self]


class Lowered(NamedTuple):
    """What is run for a call.

    Attributes
    ----------
    program : DeviceProgram
        Of this rank.
    messages : dict
        How far all programs together raise each flag.
    exchange : Program
        That by which the ranks meet before.
    """

    program: DeviceProgram
    messages: dict[Flag, int]
    exchange: Program


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
        flag_bytes = 4 * 2 * LANES * self._size
        self._peers = Peers(hosts, flag_bytes)
        self._known: dict[Call, Lowered] = {}
        self._counts: dict[Flag, int] = defaultdict(int)
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
        call = Call(*fields).plain()
        ours = Ours(_shadow(source, caller), _shadow(target, caller))
        lowered = self._lowered(call)

        def gather(mine: Array, everyone: Array) -> None:
            self._run(lowered.exchange, mine, everyone, waiting, caller)

        bases = self._peers.meet(ours.runtime, ours.addresses, lowered.program, gather)
        if bases is None:
            self._by_host(call, ours, waiting, caller)
        else:
            self._on_stream(call, ours.runtime, lowered, bases)

    def close(self) -> None:
        """Let go of the memory of others, and of what others may use."""
        self._peers.close()

    def _lowered(self, call: Call) -> Lowered:
        """What is run for a call, made at the first of its kind."""
        try:
            return self._known[call]
        except KeyError:
            programs = lower(self._programs.plans(call))
        signals = (o for p in programs for o in p.operations if isinstance(o, Signal))
        exchange = self._programs.exchange(call, OFFER)
        lowered = Lowered(programs[self._rank], dict(signals), exchange)
        self._known[call] = lowered
        make_room(self._known)
        return lowered

    def _run(
        self, program: Program, source: Array | None, target: Array | None,
        waiting: float, caller: str,
    ) -> None:  # fmt: skip
        """Run a program on arrays of the host."""
        comm = self._comm()
        assert comm is not None
        comm.run_for_devices(program, source, target, waiting, caller)

    # ---- the two ways of a call

    def _on_stream(
        self,
        call: Call,
        runtime: Runtime,
        lowered: Lowered,
        bases: Sequence[Sequence[int]],
    ) -> None:
        """Put the operations of this rank on its stream, and return."""
        for operation in lowered.program.operations:
            if isinstance(operation, Combine):
                self._combine(call, runtime, operation, bases)
                continue
            flag, number = operation
            number = (self._counts[flag] + number) % WRAP
            place = self._place(flag, bases)
            if isinstance(operation, Signal):
                runtime.write(place, number)
            else:
                runtime.wait(place, number)
        for flag, number in lowered.messages.items():
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
