"""The streams, peers and network that calls on arrays on devices share."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import NamedTuple

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.engine.transport.device_messages import DeviceMessages
from collalgo.base.finalizers import Lock
from collalgo.comm.library_programs import LibraryPrograms
from collalgo.comm.recovery import Recovery
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.devices.network import connect_network
from collalgo.engine.devices.peers import Exchange, Peers, all_can
from collalgo.engine.devices.runtime import Mark, Network, Runtime

log = logging.getLogger("collalgo")

#: Seconds for calls to end when their communicator is closed, and between two checks.
PATIENCE, LOOK = 10.0, 1e-3

#: The arrays of failed calls, which an engine may still read or write.
_in_use: list["DeviceArrays"] = []

#: Enqueues a call on a stream.
Fill = Callable[[Runtime], None]


class DeviceArrays(NamedTuple):
    """The arrays of a call on this rank, at least one."""

    source: Shadow | None
    target: Shadow | None

    @property
    def runtime(self) -> Runtime:
        array = self.target if self.source is None else self.source
        assert array is not None
        return array.runtime

    @property
    def addresses(self) -> list[int]:
        """Their addresses on the device, 0 for none."""
        return [0 if array is None else array.pointer for array in self]


class DeviceContext:
    """The streams, peers and network of a communicator's calls on devices.

    Parameters
    ----------
    programs
        Of this rank.
    hosts
        The number of the host of each rank.
    runner
        Returns the runner of the communicator, or None after its end.
    recovery
        Detects failures and reports them to the others.

    Attributes
    ----------
    has_high_priority
        Whether calls in the background run on streams of high priority; set before the
        first of them.
    route : str
        What moved the arrays of the last call, in words.
    """

    has_high_priority = False
    route = "nothing so far"

    def __init__(
        self,
        programs: LibraryPrograms,
        hosts: Sequence[int],
        runner: Callable[[], CallRunner | None],
        recovery: Recovery,
    ):
        self.rank, self.size = programs.rank, programs.size
        self.peers = Peers(hosts)
        self.hosts = hosts
        self.programs = programs
        self._runner = runner
        self.recovery = recovery
        self._messages: DeviceMessages | None = recovery.transport.device_messages
        self._has_messages: bool | None = None  # all ranks, once they have agreed
        self._asides: dict[int, Runtime] = {}
        self._kept: deque[tuple[Mark, DeviceArrays]] = deque()
        self._keeping = Lock()
        self._last: tuple[object, Mark] | None = None
        self._announced = False
        self._came_up = False
        self._network: Network | None = None

    @property
    def runner(self) -> CallRunner:
        """The runner of the communicator."""
        runner = self._runner()
        assert runner is not None
        return runner

    def put(self, fill: Fill, runtime: Runtime) -> Mark:
        """Enqueue a call on a stream after the one before: its end.

        A graph cannot wait for a call outside it: its user ensures that the call
        before has ended when the graph runs.
        """
        if runtime.capturing:
            fill(runtime)
            return runtime.mark()
        if self._last is not None and self._last[0] != runtime.stream:
            runtime.after(self._last[1])
        fill(runtime)
        end = runtime.mark()
        self._last = runtime.stream, end
        return end

    def put_on_own_stream(self, fill: Fill, arrays: DeviceArrays, begun: Mark) -> Mark:
        """Enqueue a call on a stream of its own: its end.

        Its arrays are kept until then, because the stream of the user may be ahead.
        The user of a graph keeps its arrays: the end of a graph is unknown.
        """
        runtime = arrays.runtime
        if runtime.device not in self._asides:
            high = self.has_high_priority
            self._asides[runtime.device] = runtime.aside(high_priority=high)
        aside = self._asides[runtime.device]
        aside.after(begun)
        end = self.put(fill, aside)
        if not aside.capturing:
            with self._keeping:
                self._kept.append((end, arrays))
        return end

    def tidy(self) -> None:
        """Release the arrays of calls that have ended."""
        with self._keeping:
            while self._kept and self._kept[0][0].done:
                self._kept.popleft()

    def network(self, runtime: Runtime, exchange: Exchange) -> Network | None:
        """The network between the devices, if all ranks have it."""
        if not self._came_up:
            self._network = connect_network(runtime, self.rank, self.hosts, exchange)
            self._came_up = True
        return self._network

    def messages(self, exchange: Exchange) -> DeviceMessages | None:
        """The messages of a CUDA-aware engine, if all ranks have one."""
        if self._has_messages is None:
            self._has_messages = all_can(self._messages is not None, exchange)
        return self._messages if self._has_messages else None

    def keep(self, arrays: DeviceArrays) -> None:
        """Keep the arrays of a failed call, if the engine may still use them."""
        if self._messages is not None and self._messages.in_use:
            _in_use.append(arrays)

    def announce(self, caller: str) -> None:
        """Warn once that messages are copied through the host."""
        if not self._announced:
            self._announced = True
            log.warning(
                "%s: the memory of the devices of these %d ranks cannot be mapped by "
                "all of them; their arrays are copied through the host",
                caller,
                self.size,
            )

    def close(self) -> None:
        """Release the memory of other ranks, and the memory that they may use.

        Calls on streams have some time to end; then their waits are ended.
        """
        ended = self._ends_within(PATIENCE)
        if not ended:
            log.error(
                "rank %d: calls on devices have not ended %g s after their "
                "communicator was closed: do not use their results",
                self.rank,
                PATIENCE,
            )
        if self._network is not None:
            self._network.close()
            self._network = None
        in_use = self._messages is not None and self._messages.in_use
        if not in_use and (ended or self._ends_within(PATIENCE, self.peers.end_waits)):
            self.peers.close()
        else:
            self.peers.abandon()

    def _ends_within(
        self, seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Whether the last call ends within ``seconds``."""
        end = monotonic() + seconds
        while self._last is not None and not self._last[1].done:
            if monotonic() > end:
                return False
            meanwhile()
            sleep(LOOK)
        return True
