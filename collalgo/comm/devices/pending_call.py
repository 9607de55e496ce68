"""A call on arrays on devices on its way: ranks meet, and then it goes on a stream."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from collalgo._kernels.engine.engine import Program
from collalgo.comm.program_cache import ProgramCache
from collalgo.engine.arrays import Array
from collalgo.engine.call import Call
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.devices.buffer_exchange import OFFER
from collalgo.engine.devices.grouped import group
from collalgo.engine.devices.program import lower
from collalgo.engine.devices.runtime import Mark, Runtime
from collalgo.engine.devices.streams import Grouped, Streamed

if TYPE_CHECKING:  # who makes them
    from collalgo.comm.devices.calls import DeviceCalls

#: What puts a call on a stream.
Fill = Callable[[Runtime], None]


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
        return [0 if array is None else array.pointer for array in self]


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

    def __init__(self, call: Call, programs: ProgramCache, exchange: Program):
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


class PendingCall:
    """A call on its way: the ranks are to meet, and then it goes on a stream.

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
        background: bool,
    ):
        runtime = ours.runtime
        self.exchange = lowered.exchange
        self.everyone = np.empty((calls.size, OFFER), np.uint8)
        self._calls, self._ours, self._lowered = calls, ours, lowered
        self._waiting, self._caller = waiting, caller
        self._background = background
        self._begun: Mark | None = None
        self._end: Mark | None = None
        with runtime.current():
            self.mine = _padded(self._offer(runtime))
            if background or calls.peers.crowded:
                # Before the ranks meet: on a stream that they share, none may wait
                # for another before all have come so far.
                self._begun = runtime.mark()

    def go_on(self) -> None:
        """Put the call on a stream, now that the ranks have met."""
        with self._ours.runtime.current():
            self._put(self._ours.runtime)

    def _offer(self, runtime: Runtime) -> bytes:
        """What this rank tells the others of its buffers."""
        scratch = outbox = 0
        if self._calls.peers.near:
            self._lowered.streamed.prepare(runtime)
            program = self._lowered.streamed.program
            scratch, outbox = program.scratch_bytes, program.outbox_bytes
        return self._calls.peers.offer(runtime, self._ours.addresses, scratch, outbox)

    def _put(self, runtime: Runtime) -> None:
        fill = self._way(runtime)
        if fill is None:
            if self._begun is not None:
                runtime.after(self._begun)
            self._by_host()
            self._end = runtime.mark()
        elif self._background or self._calls.peers.crowded:
            assert self._begun is not None
            self._end = self._calls.put_aside(fill, self._ours, self._begun)
            if self._calls.peers.crowded:
                # Whoever goes on may load a kernel, which waits for all streams of the
                # process while nobody else can fill his: first all fill theirs.
                self._tell(b"")
            if not self._background:
                runtime.after(self._end)
        else:
            self._end = self._calls.put(fill, runtime)

    def _way(self, runtime: Runtime) -> Fill | None:
        """What puts the call on a stream; None if there is no way but by the host."""
        peers = self._calls.peers
        bases = peers.found(runtime, self.everyone, self._tell)
        if bases is not None:
            streamed, sharing = self._lowered.streamed, peers.sharing
            return partial(streamed.put, bases=bases, sharing=sharing)
        network = self._calls.network(runtime, self._tell)
        grouped = self._lowered.grouped if network is not None else None
        if network is None or grouped is None:
            return None
        grouped.load(runtime)
        needs = grouped.program.scratch_bytes, grouped.program.inbox_bytes
        own = peers.own(runtime, self._ours.addresses, *needs)
        return partial(grouped.put, network=network, bases={self._calls.rank: own})

    def _tell(self, mine: bytes) -> list[bytes]:
        """What all ranks tell once they have met, as much as an offer at most."""
        self._run(self.exchange, _padded(mine), self.everyone)
        return [row.tobytes() for row in self.everyone]

    def _run(
        self, program: Program, source: Array | None, target: Array | None
    ) -> None:
        """Run a program on arrays of the host."""
        comm = self._calls.comm
        comm.run(program, source, target, self._waiting, self._caller)

    @property
    def done(self) -> bool:
        """Whether the stream has come to the end of a call in the background."""
        return self._end is not None and self._end.done

    def synchronize(self) -> None:
        """Wait for the end of a call in the background."""
        assert self._end is not None
        self._end.synchronize()
        self._calls.tidy()

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
            array.pointer: _fetched(runtime, array)
            for array in self._ours
            if array is not None
        }
        source, target = (
            None if array is None else copies[array.pointer] for array in self._ours
        )
        self._run(self._calls.programs.get(*self._lowered.call), source, target)
        if self._ours.target is not None and target is not None:
            runtime.to_device(self._ours.target.pointer, _bytes(target))


def _padded(offer: bytes) -> Array:
    return np.frombuffer(offer.ljust(OFFER, b"\0"), np.uint8)


def _fetched(runtime: Runtime, array: Shadow) -> Array:
    """A copy of an array of a device in the memory of the host."""
    found = np.empty(array.shape, array.dtype)
    runtime.to_host(array.pointer, _bytes(found))
    return found


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
