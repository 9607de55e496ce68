"""Calls on arrays in the memory of devices.

Ranks tell each other where their arrays are, in a call of the host that is compared as
all calls are. Then each puts its part on a stream and returns; what follows on the
stream of the user follows the call. Ranks whose memory others cannot map go by way of
the host.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from collalgo._kernels.engine import Program
from collalgo.arrays import Array
from collalgo.call import Call
from collalgo.devices.arrays import Shadow
from collalgo.devices.grouped import group
from collalgo.devices.market import survey
from collalgo.devices.network import come_up, padded
from collalgo.devices.peers import OFFER, Peers
from collalgo.devices.program import lower
from collalgo.devices.runtime import Mark, Network, Runtime
from collalgo.devices.streams import Grouped, Streamed
from collalgo.programs import Programs, make_room

if TYPE_CHECKING:  # who imports this
    from collalgo.communicator import Communicator
    from collalgo.selection.on_host import Host
    from collalgo.selection.on_topology import Prospect

log = logging.getLogger("collalgo")

#: What fills a stream with a call.
Put = Callable[[Runtime], None]

#: What an algorithm is called where ranks compare their calls, beside its name.
ON_DEVICES = "on devices"


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


class Lowered:
    """What is run for a call; each way of it is lowered when it is first gone.

    Parameters
    ----------
    call
        A plain call.
    programs
        By which the plans of all ranks are made.
    exchange
        By which the ranks meet before.
    """

    def __init__(self, call: Call, programs: Programs, exchange: Program):
        self.call = call
        self.exchange = exchange
        self._programs = programs

    @cached_property
    def streamed(self) -> Streamed:
        """The way between ranks that read each other's memory."""
        rank, size = self._programs.rank, self._programs.size
        return Streamed(self.call, lower(self._programs.plans(self.call))[rank], size)

    @cached_property
    def grouped(self) -> Grouped | None:
        """The way by a network; None if it cannot be gone."""
        rank, size = self._programs.rank, self._programs.size
        found = group(self._programs.plans(self.call))
        return None if found is None else Grouped(self.call, found[rank], size)


class Underway:
    """A call on its way: the ranks are to meet, and then its stream is filled.

    Attributes
    ----------
    exchange : Program
        By which the ranks meet.
    mine, everyone : ndarray
        What this rank tells, and what it is told.
    """

    def __init__(
        self,
        calls: "DeviceCalls",
        ours: Ours,
        lowered: Lowered,
        waiting: float,
        caller: str,
    ):
        runtime = ours.runtime
        self.exchange = lowered.exchange
        self.everyone = np.empty((calls.size, OFFER), np.uint8)
        self._calls, self._ours, self._lowered = calls, ours, lowered
        self._waiting, self._caller = waiting, caller
        with runtime.current():
            self.mine = self._offer(runtime)
            # Before the ranks meet: on a stream that they share, none may wait for
            # another before all have come so far.
            self._begun = runtime.mark()
        self._end: Mark | None = None

    def go_on(self, *, background: bool) -> None:
        """Fill the stream, now that the ranks have met."""
        with self._ours.runtime.current():
            self._fill(self._ours.runtime, background)

    def _offer(self, runtime: Runtime) -> Array:
        """What this rank tells the others of its buffers."""
        scratch = outbox = 0
        if self._calls.peers.near:
            program = self._lowered.streamed.program
            scratch, outbox = program.scratch_bytes, program.outbox_bytes
        return self._calls.peers.offer(runtime, self._ours.addresses, scratch, outbox)

    def _fill(self, runtime: Runtime, background: bool) -> None:
        put = self._way(runtime)
        if put is None:
            runtime.after(self._begun)
            self._by_host()
            self._end = runtime.mark()
        elif background or self._calls.peers.crowded:
            self._end = self._calls.put_aside(put, runtime, self._begun)
            if not background:
                runtime.after(self._end)
        else:
            self._calls.put(put, runtime)

    def _way(self, runtime: Runtime) -> Put | None:
        """What fills a stream; None if there is no way but by the host."""
        peers = self._calls.peers
        bases = peers.found(runtime, self.everyone, self._exchange)
        if bases is not None:
            return partial(self._lowered.streamed.put, bases=bases)
        network = self._calls.network(runtime, self._exchange)
        grouped = self._lowered.grouped if network is not None else None
        if network is None or grouped is None:
            return None
        needs = grouped.program.scratch_bytes, grouped.program.inbox_bytes
        own = peers.own(runtime, self._ours.addresses, *needs)
        return partial(grouped.put, network=network, bases={self._calls.rank: own})

    def _exchange(self, mine: Array, everyone: Array) -> None:
        self._calls.run(self.exchange, mine, everyone, self._waiting, self._caller)

    @property
    def done(self) -> bool:
        """Whether the stream has come to the end of a call in the background."""
        return self._end is not None and self._end.done

    def synchronize(self) -> None:
        """Wait for the end of a call in the background."""
        assert self._end is not None
        self._end.synchronize()

    def hold(self, stream: Any) -> None:
        """Let a stream wait for the end of a call in the background."""
        assert self._end is not None
        self._ours.runtime.hold(stream, self._end)

    def _by_host(self) -> None:
        """Make the call on copies in the memory of the host."""
        runtime = self._ours.runtime
        if runtime.capturing:
            raise RuntimeError(
                f"{self._caller}: these ranks cannot map each other's memory, and what "
                "goes by way of the host cannot be captured in a graph; call it outside"
            )
        self._calls.announce(self._caller)
        copies = {
            array.ctypes.data: _fetched(runtime, array)
            for array in self._ours
            if array is not None
        }
        source, target = (
            None if array is None else copies[array.ctypes.data] for array in self._ours
        )
        program = self._calls.on_host(self._lowered.call)
        self._calls.run(program, source, target, self._waiting, self._caller)
        if self._ours.target is not None and target is not None:
            runtime.to_device(self._ours.target.ctypes.data, _bytes(target))


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
        self.rank, self.size = programs.rank, programs.size
        self.peers = Peers(hosts)
        self._hosts = hosts
        self._programs = programs
        self._comm = comm
        self._known: dict[Call, Lowered] = {}
        self._asides: dict[int, Runtime] = {}
        self._last: tuple[object, Mark] | None = None
        self._announced = False
        self._came_up = False
        self._network: Network | None = None
        self._on_devices: Programs | None = None

    @property
    def market(self) -> "Host | Prospect":
        """Where the candidates for calls on devices have their prices.

        Raises
        ------
        ValueError
            If there has been none yet.
        """
        if self._on_devices is None:
            raise ValueError(
                "select: which devices the ranks use is not known before the first "
                "call on arrays on them; make one, or leave out devices"
            )
        return self._on_devices.market

    def begin(
        self,
        fields: tuple[Any, ...],
        source: Array | None,
        target: Array | None,
        waiting: float,
        caller: str,
    ) -> Underway:
        """A call on arrays on a device, for which the ranks have not yet met.

        Raises
        ------
        TypeError
            If only one of the arrays is on a device.
        """
        call = Call(*fields).plain()
        ours = Ours(_shadow(source, caller), _shadow(target, caller))
        if self._on_devices is None:
            self._on_devices = self._surveyed(call, ours.runtime, waiting, caller)
        lowered = self._lowered(call, self._on_devices)
        return Underway(self, ours, lowered, waiting, caller)

    def put(self, put: Put, runtime: Runtime) -> None:
        """Put a call on a stream, behind the one before, and return.

        What becomes a graph cannot wait for what does not: its user sees to it that
        the one before has ended when the graph runs.
        """
        if runtime.capturing:
            put(runtime)
            return
        if self._last is not None and self._last[0] != runtime.stream:
            runtime.after(self._last[1])
        put(runtime)
        self._last = runtime.stream, runtime.mark()

    def put_aside(self, put: Put, runtime: Runtime, begun: Mark) -> Mark:
        """Put a call on a stream of its own: where it ends there."""
        if runtime.device not in self._asides:
            self._asides[runtime.device] = runtime.aside()
        aside = self._asides[runtime.device]
        aside.after(begun)
        self.put(put, aside)
        return aside.mark()

    def network(
        self, runtime: Runtime, exchange: Callable[[Array, Array], None]
    ) -> Network | None:
        """What carries messages between the devices, if all ranks have it."""
        if not self._came_up:
            told = padded(exchange, self.size, OFFER)
            self._network = come_up(runtime, self.rank, self._hosts, told)
            self._came_up = True
        return self._network

    def on_host(self, call: Call) -> Program:
        """What makes a call on arrays of the host."""
        return self._programs.get(*call)

    def run(
        self, program: Program, source: Array | None, target: Array | None,
        waiting: float, caller: str,
    ) -> None:  # fmt: skip
        """Run a program on arrays of the host, while a call is under way."""
        comm = self._comm()
        assert comm is not None
        comm.run(program, source, target, waiting, caller)

    def _in_turn(
        self, program: Program, source: Array, target: Array,
        waiting: float, caller: str,
    ) -> None:  # fmt: skip
        """Run a program on arrays of the host, behind what is under way."""
        comm = self._comm()
        assert comm is not None
        comm.run_now(program, source, target, waiting, caller)

    def announce(self, caller: str) -> None:
        """Say once that arrays go by way of the host."""
        if not self._announced:
            self._announced = True
            log.warning(
                "%s: the memory of the devices of these %d ranks cannot be mapped by "
                "all of them; their arrays go by way of the host",
                caller,
                self.size,
            )

    def close(self) -> None:
        """Let go of the memory of others, and of what others may use."""
        if self._network is not None:
            self._network.close()
            self._network = None
        self.peers.close()

    def _surveyed(
        self, call: Call, runtime: Runtime, waiting: float, caller: str
    ) -> Programs:
        """Programs by the prices of the devices, of which all ranks tell each other."""
        here = self._programs
        found = Programs(here.rank, self.size, here.machine)
        if self.size == 1:
            return found

        def gather(mine: bytes) -> list[bytes]:
            """What all ranks tell before the first call, which is compared as that."""
            lengths = np.empty((self.size, 1), np.int64)
            announce = here.exchange(call, lengths.itemsize, ON_DEVICES)
            own = np.array([[len(mine)]])
            self._in_turn(announce, own, lengths, waiting, caller)
            counts = tuple(int(length) for length in lengths[:, 0])
            joined = np.empty(sum(counts), np.uint8)
            tell = here.get(
                "allgather", joined.dtype, len(mine), None, 0, None, counts, False
            )
            told = np.frombuffer(mine, np.uint8)
            self._in_turn(tell, told, joined, waiting, caller)
            ends = [*accumulate(counts, initial=0)]
            return [joined[a:b].tobytes() for a, b in pairwise(ends)]

        leads = self._hosts.index(self._hosts[here.rank]) == here.rank
        found.market = survey(runtime, leads, gather)
        return found

    def _lowered(self, call: Call, programs: Programs) -> Lowered:
        """What is run for a call, made at the first of its kind."""
        try:
            return self._known[call]
        except KeyError:
            name = f"{programs.name(call)} {ON_DEVICES}"
        exchange = programs.exchange(call, OFFER, name)
        lowered = Lowered(call, programs, exchange)
        self._known[call] = lowered
        make_room(self._known)
        return lowered


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
