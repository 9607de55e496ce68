"""A pending call on arrays on devices: the ranks exchange records, then enqueue it."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from collalgo._kernels.comm.carried_call import is_ready, run_carried
from collalgo._kernels.engine.program import RUN_DONE, Program
from collalgo._kernels.engine.transport.device_messages import DeviceMessages
from collalgo._kernels.engine.transport.transport import PART_OF_LAST
from collalgo.comm.devices.context import DeviceArrays, DeviceContext, Fill
from collalgo.comm.library_programs import LibraryPrograms
from collalgo.engine.arrays import Array
from collalgo.engine.call import Call
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.devices.buffer_exchange import OFFER
from collalgo.engine.devices.engine_network import CallFailed, EngineNetwork
from collalgo.engine.devices.grouped import group
from collalgo.engine.devices.peers import Bases
from collalgo.engine.devices.program import lower
from collalgo.engine.devices.runtime import Mark, Runtime
from collalgo.engine.devices.streams import Grouped, Streamed
from collalgo.engine.dtypes import kind_of
from collalgo.engine.ufuncs import LOGICAL


class Lowered:
    """The programs of a call, one for each route; each is lowered at its first use.

    Parameters
    ----------
    call
        A plain call.
    programs
        Make the plans of all ranks.
    exchange
        The program that exchanges the records of the ranks before the call.
    again
        The same for further exchanges of the call.
    """

    def __init__(
        self, call: Call, programs: LibraryPrograms, exchange: Program, again: Program
    ):
        self.call = call
        self.exchange, self.again = exchange, again
        self._programs = programs

    @cached_property
    def streamed(self) -> Streamed:
        """The program for ranks that read each other's memory."""
        rank, size = self._programs.rank, self._programs.size
        return Streamed(self.call, lower(self._programs.plans(self.call))[rank], size)

    @cached_property
    def is_single(self) -> bool:
        """Whether this rank's result is a single contribution to a logical op."""
        rank, size = self._programs.rank, self._programs.size
        if self.call.op not in LOGICAL:
            return False
        first = {"scan": 0, "exscan": 1}.get(self.call.collective)
        return size == 1 if first is None else rank == first

    @cached_property
    def grouped(self) -> Grouped | None:
        """The program for a network; None if the network cannot run the call."""
        rank, size = self._programs.rank, self._programs.size
        found = group(self._programs.plans(self.call))
        return None if found is None else Grouped(self.call, found[rank], size)


class PendingCall:
    """A pending call: the ranks exchange their records, then it is enqueued.

    Attributes
    ----------
    exchange : Program
        The program that exchanges the records.
    mine, everyone : ndarray
        The message of this rank, and those of all ranks.
    """

    def __init__(
        self,
        context: DeviceContext,
        arrays: DeviceArrays,
        lowered: Lowered,
        waiting: float,
        caller: str,
        background: bool,
    ):
        runtime = arrays.runtime
        self.exchange = lowered.exchange
        self.everyone = np.empty((context.size, OFFER), np.uint8)
        self._context, self._arrays, self._lowered = context, arrays, lowered
        self._waiting, self._caller = waiting, caller
        self._background = background
        self._begun: Mark | None = None
        self._end: Mark | None = None
        with runtime.current():
            if lowered.is_single:
                runtime.load(kind_of(lowered.call.dtype), "lor", whole=False)
            self.mine = _padded(self._offer(runtime))
            if background or context.peers.crowded:
                # Before the exchange: on a stream that they share, no rank may wait for
                # another before all have enqueued up to here.
                self._begun = runtime.mark()

    def enqueue(self) -> None:
        """Enqueue the call on a stream after the exchange."""
        with self._arrays.runtime.current():
            self._put(self._arrays.runtime)

    def _offer(self, runtime: Runtime) -> bytes:
        """The description of this rank's buffers for the other ranks."""
        scratch = outbox = 0
        if self._context.peers.near:
            self._lowered.streamed.prepare(runtime)
            program = self._lowered.streamed.program
            scratch, outbox = program.scratch_bytes, program.outbox_bytes
        return self._context.peers.offer(
            runtime, self._arrays.addresses, scratch, outbox
        )

    def _put(self, runtime: Runtime) -> None:
        fill = self._way(runtime)
        if fill is not None and self._lowered.is_single:
            fill = partial(self._put_single, fill)
        if fill is None:
            if self._begun is not None:
                runtime.after(self._begun)
            self._by_host()
            self._end = runtime.mark()
        elif self._background or self._context.peers.crowded:
            assert self._begun is not None
            self._end = self._context.put_on_own_stream(fill, self._arrays, self._begun)
            if self._context.peers.crowded:
                # A rank that continues may load a kernel, which waits for all streams
                # of the process, while no other rank can enqueue: first all ranks
                # enqueue.
                self._exchange_records(b"")
            if not self._background:
                runtime.after(self._end)
        else:
            self._end = self._context.put(fill, runtime)

    def _way(self, runtime: Runtime) -> Fill | None:
        """The function that enqueues the call; None if only the host can carry it."""
        peers = self._context.peers
        bases = peers.found(runtime, self.everyone, self._exchange_records)
        if bases is not None:
            self._context.route = "memory that all ranks map"
            streamed, sharing = self._lowered.streamed, peers.sharing
            return partial(streamed.put, bases=bases, sharing=sharing)
        return self._way_by_messages(runtime)

    def _way_by_messages(self, runtime: Runtime) -> Fill | None:
        """The same, by a network of the devices or a CUDA-aware engine."""
        context = self._context
        network = context.network(runtime, self._exchange_records)
        messages = (
            None if network is not None else context.messages(self._exchange_records)
        )
        if (network is None and messages is None) or self._lowered.grouped is None:
            return None
        grouped = self._lowered.grouped
        grouped.load(runtime)
        needs = grouped.program.scratch_bytes, grouped.program.inbox_bytes
        own = context.peers.own(runtime, self._arrays.addresses, *needs)
        bases = {context.rank: own}
        if network is not None:
            context.route = str(runtime.network)
            return partial(grouped.put, network=network, bases=bases)
        assert messages is not None
        self._refuse_capture(runtime)
        context.route = str(context.recovery.context.engine)
        return partial(self._put_over_engine, grouped, messages, bases)

    def _put_over_engine(
        self, grouped: Grouped, messages: DeviceMessages, bases: Bases, runtime: Runtime
    ) -> None:
        """Make the call group by group; the host waits for the messages of each."""
        network = EngineNetwork(runtime, messages, self._has_reached)

        def carry() -> bool:
            try:
                grouped.put(runtime, network, bases)
            except CallFailed:
                return False
            return True

        self._carry(carry)

    def _has_reached(self, mark: Mark) -> bool:
        """Wait until the stream has reached a mark: False if the call has failed."""
        return is_ready(self._context.runner, lambda: mark.done)

    def _carry(self, carry: Callable[[], bool]) -> None:
        """Make a part of the call that the host waits for; it may fail."""
        context, program = self._context, self._lowered.again
        try:
            status = run_carried(context.runner, program, carry, self._waiting)
        except BaseException as error:
            context.keep(self._arrays)
            context.recovery.interrupted(self._caller, error)
            raise
        if status != RUN_DONE:
            context.keep(self._arrays)
            context.recovery.raise_failure(self._caller, status)

    def _exchange_records(self, mine: bytes) -> list[bytes]:
        """The records of all ranks after the exchange, each at most an offer long."""
        self._run(self._lowered.again, _padded(mine), self.everyone)
        return [row.tobytes() for row in self.everyone]

    def _run(
        self, program: Program, source: Array | None, target: Array | None
    ) -> None:
        """Run a program on arrays of the host."""
        runner = self._context.runner
        waiting, in_foreground = self._waiting, not self._background
        runner.run(program, source, target, waiting, self._caller, in_foreground)

    @property
    def done(self) -> bool:
        """Whether the stream has reached the end of a call in the background."""
        return self._end is not None and self._end.done

    def synchronize(self) -> None:
        """Wait for the end of a call in the background."""
        assert self._end is not None
        self._end.synchronize()
        self._context.tidy()

    def hold(self, stream: Any) -> None:
        """Make a stream wait for the end of a call in the background."""
        assert self._end is not None
        self._arrays.runtime.hold(stream, self._end)

    def _by_host(self) -> None:
        """Make the call on copies in the memory of the host."""
        runtime = self._arrays.runtime
        self._refuse_capture(runtime)
        self._context.announce(self._caller)
        self._context.route = "copies through the host"
        mark = runtime.mark()
        self._carry(lambda: self._has_reached(mark))
        copies = {
            array.pointer: _fetched(runtime, array)
            for array in self._arrays
            if array is not None
        }
        source, target = (
            None if array is None else copies[array.pointer] for array in self._arrays
        )
        self._run(self._program_of_host(), source, target)
        if self._arrays.target is not None and target is not None:
            runtime.to_device(self._arrays.target.pointer, _bytes(target))
            if self._lowered.is_single:
                self._make_truth(runtime)

    def _put_single(self, fill: Fill, runtime: Runtime) -> None:
        fill(runtime)
        self._make_truth(runtime)

    def _make_truth(self, runtime: Runtime) -> None:
        """Replace the result by its truth value (x or x) on the stream."""
        target = self._arrays.target
        if target is not None:
            place, kind = target.pointer, kind_of(target.dtype)
            runtime.reduce(kind, "lor", place, [place, place], target.size, 0)

    def _program_of_host(self) -> Program:
        call, programs = self._lowered.call, self._context.programs
        return programs.named(call, programs.name(call), PART_OF_LAST)

    def _refuse_capture(self, runtime: Runtime) -> None:
        if runtime.capturing:
            raise RuntimeError(
                f"{self._caller}: these ranks cannot map each other's memory, and a "
                "graph cannot capture the work of the host; call outside the capture"
            )


def _padded(offer: bytes) -> Array:
    return np.frombuffer(offer.ljust(OFFER, b"\0"), np.uint8)


def _fetched(runtime: Runtime, array: Shadow) -> Array:
    """A copy of an array of a device in the memory of the host."""
    found = np.empty(array.shape, array.dtype)
    runtime.to_host(array.pointer, _bytes(found))
    return found


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
