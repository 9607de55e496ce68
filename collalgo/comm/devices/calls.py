"""Calls on arrays in the memory of devices.

Ranks tell each other where their arrays are, in a call of the host that is compared as
all calls are. Then each puts its part on a stream and returns; what follows on the
stream of the user follows the call. Where ranks cannot map each other's memory, a
network of the devices carries their messages, and without one these go by way of the
host.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo.base.cache import recalled
from collalgo.comm.devices.device_pricing import survey
from collalgo.comm.devices.pending_call import Fill, Lowered, Ours, PendingCall
from collalgo.comm.program_cache import ProgramCache
from collalgo.engine.arrays import Array, check_writeable
from collalgo.engine.call import Call
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.devices.buffer_exchange import OFFER
from collalgo.engine.devices.network import come_up
from collalgo.engine.devices.peers import Peers, Tell
from collalgo.engine.devices.runtime import Mark, Network, Runtime

if TYPE_CHECKING:  # who imports this
    from collalgo.comm.communicator import Communicator
    from collalgo.selection.on_host import HostPricer
    from collalgo.selection.on_topology import TopologyPricer

log = logging.getLogger("collalgo")

#: Seconds that calls have to end in when their communicator is closed, and how often
#: that is looked for.
PATIENCE, LOOK = 10.0, 1e-3

#: What an algorithm is called where ranks compare their calls, beside its name.
ON_DEVICES = "on devices"


class DeviceCalls:
    """What a communicator does with arrays on devices.

    Parameters
    ----------
    programs
        Of this rank.
    hosts
        The number of the host of each rank.
    comm
        Refers to the communicator.
    survey
        Whether the ranks tell each other of their devices before the first call, for
        prices; until all have made it, nobody goes on then, in the background neither.
    """

    def __init__(
        self,
        programs: ProgramCache,
        hosts: Sequence[int],
        comm: "Callable[[], Communicator | None]",
        survey: bool,
    ):
        self.rank, self.size = programs.rank, programs.size
        self.peers = Peers(hosts)
        self._hosts = hosts
        self.programs = programs
        self._comm = comm
        self._known: dict[tuple[Any, ...], Lowered] = {}  # by what users say, too
        self._asides: dict[int, Runtime] = {}
        self._kept: deque[tuple[Mark, Ours]] = deque()
        self._keeping = Lock()
        self._last: tuple[object, Mark] | None = None
        self._survey = survey and self.size > 1
        self._announced = False
        self._came_up = False
        self._network: Network | None = None
        self._on_devices: ProgramCache | None = None

    @property
    def comm(self) -> "Communicator":
        """The communicator, which runs what goes by way of the host."""
        comm = self._comm()
        assert comm is not None
        return comm

    @property
    def pricer(self) -> "HostPricer | TopologyPricer":
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
        return self._on_devices.pricer

    def begin(
        self,
        fields: tuple[Any, ...],
        source: Array | None,
        target: Array | None,
        waiting: float,
        caller: str,
        background: bool,
    ) -> PendingCall:
        """A call on arrays on a device, for which the ranks have not yet met.

        Raises
        ------
        TypeError
            If only one of the arrays is on a device.
        ValueError
            If the result cannot be written.
        """
        self.tidy()
        if target is not None:
            check_writeable(target, "buf" if target is source else "out", caller)
        ours = Ours(_shadow(source, caller), _shadow(target, caller))
        if self._on_devices is None:
            call = Call(*fields).plain()
            self._on_devices = self._surveyed(call, ours.runtime, waiting, caller)
        lowered = recalled(
            self._known, fields, partial(self._lowered, self._on_devices)
        )
        return PendingCall(self, ours, lowered, waiting, caller, background)

    def put(self, fill: Fill, runtime: Runtime) -> Mark:
        """Put a call on a stream, behind the one before: where it ends there.

        What becomes a graph cannot wait for what does not: its user sees to it that
        the one before has ended when the graph runs.
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

    def put_aside(self, fill: Fill, ours: Ours, begun: Mark) -> Mark:
        """Put a call on a stream of its own: where it ends there.

        Its arrays are kept until then, as the stream of their user may be far ahead.
        Those of a graph are kept by who has the graph: it has no end that can be seen.
        """
        runtime = ours.runtime
        if runtime.device not in self._asides:
            self._asides[runtime.device] = runtime.aside()
        aside = self._asides[runtime.device]
        aside.after(begun)
        end = self.put(fill, aside)
        if not aside.capturing:
            with self._keeping:
                self._kept.append((end, ours))
        return end

    def tidy(self) -> None:
        """Let go of the arrays of calls that have ended."""
        with self._keeping:
            while self._kept and self._kept[0][0].done:
                self._kept.popleft()

    def network(self, runtime: Runtime, tell: Tell) -> Network | None:
        """What carries messages between the devices, if all ranks have it."""
        if not self._came_up:
            self._network = come_up(runtime, self.rank, self._hosts, tell)
            self._came_up = True
        return self._network

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
        """Let go of the memory of others, and of what others may use.

        What is on streams has some time to end; then its waits are ended.
        """
        ended = self._ends_within(PATIENCE)
        if not ended:
            log.error(
                "rank %d: calls on devices have not ended %g s after their "
                "communicator was closed: what they give is not to be used",
                self.rank,
                PATIENCE,
            )
        if self._network is not None:
            self._network.close()
            self._network = None
        if ended or self._ends_within(PATIENCE, self.peers.let_go):
            self.peers.close()
        else:
            self.peers.abandon()

    def _ends_within(
        self, seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Whether the last call has ended after so long at most."""
        end = monotonic() + seconds
        while self._last is not None and not self._last[1].done:
            if monotonic() > end:
                return False
            meanwhile()
            sleep(LOOK)
        return True

    def _surveyed(
        self, call: Call, runtime: Runtime, waiting: float, caller: str
    ) -> ProgramCache:
        """Programs by the prices of the devices, of which all ranks tell each other."""
        here = self.programs
        found = ProgramCache(here.rank, self.size, here.machine)
        if not self._survey:
            return found

        def gather(mine: bytes) -> list[bytes]:
            """What all ranks tell before the first call, which is compared as that."""
            lengths = np.empty((self.size, 1), np.int64)
            announce = here.exchange(call, lengths.itemsize, ON_DEVICES)
            own = np.array([[len(mine)]])
            self.comm.run_now(announce, own, lengths, waiting, caller)
            counts = tuple(lengths[:, 0].tolist())
            joined = np.empty(sum(counts), np.uint8)
            tell = here.get(
                "allgather", joined.dtype, len(mine), None, 0, None, counts, False
            )
            told = np.frombuffer(mine, np.uint8)
            self.comm.run_now(tell, told, joined, waiting, caller)
            parts = np.split(joined, np.cumsum(counts)[:-1])
            return [part.tobytes() for part in parts]

        leads = self._hosts.index(self._hosts[here.rank]) == here.rank
        found.pricer = survey(runtime, leads, gather)
        return found

    def _lowered(self, programs: ProgramCache, fields: tuple[Any, ...]) -> Lowered:
        """What is run for a call, made at the first with its plain name."""
        call = Call(*fields).plain()
        if call not in self._known:
            name = f"{programs.name(call)} {ON_DEVICES}"
            exchange = programs.exchange(call, OFFER, name)
            self._known[call] = Lowered(call, programs, exchange)
        return self._known[call]


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
