"""Calls on arrays in the memory of devices.

The ranks exchange the addresses of their arrays in a call of the host, which is
compared as all calls are. Then each rank enqueues its part on a stream and returns;
later work on the stream of the user follows the call. If the ranks cannot map each
other's memory, a network of the devices carries the messages, or a CUDA-aware engine
between hosts; without both the host copies them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.engine.transport.transport import (
    PART_OF_LAST,
    PART_OF_NEXT,
    WHOLE_CALL,
)
from collalgo.base.cache import recalled
from collalgo.comm.call_text import EXCHANGE, ON_DEVICES
from collalgo.comm.devices.context import DeviceArrays, DeviceContext
from collalgo.comm.devices.device_pricing import gathered_pricer
from collalgo.comm.devices.pending_call import Lowered, PendingCall
from collalgo.comm.library_programs import LibraryPrograms
from collalgo.comm.recovery import Recovery
from collalgo.engine.arrays import Array, check_writeable
from collalgo.engine.call import Call, named_with_parts
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.devices.buffer_exchange import OFFER
from collalgo.engine.devices.runtime import Runtime
from collalgo.engine.reduction import INVARIANT
from collalgo.engine.user_op import Op

if TYPE_CHECKING:
    from collalgo.selection.pricer import Pricer


class DeviceCalls(DeviceContext):
    """The calls of a communicator on arrays on devices.

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
    shares_facts
        Whether the ranks exchange facts about their devices before the first call, for
        prices; that call then blocks until all ranks make it, in the background too.
    """

    def __init__(
        self,
        programs: LibraryPrograms,
        hosts: Sequence[int],
        runner: Callable[[], CallRunner | None],
        recovery: Recovery,
        shares_facts: bool,
    ):
        super().__init__(programs, hosts, runner, recovery)
        self._known: dict[tuple[Any, ...], Lowered] = {}  # also by aliases of ops
        self._shares_facts = shares_facts and self.size > 1
        self._on_devices: LibraryPrograms | None = None

    @property
    def pricer(self) -> "Pricer":
        """Prices the candidates for calls on devices.

        Raises
        ------
        ValueError
            Before the first call on devices.
        """
        if self._on_devices is None:
            raise ValueError(
                "select: the devices of the ranks are unknown before the first call "
                "on device arrays; make one, or leave out devices"
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
        """Begin a call on arrays on a device, before the other ranks have made it.

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
        arrays = DeviceArrays(_shadow(source, caller), _shadow(target, caller))
        if self._on_devices is None:
            call = Call(*fields).plain()
            self._on_devices = self._of_devices(call, arrays.runtime, waiting, caller)
        lowered = recalled(
            self._known, fields, partial(self._lowered, self._on_devices)
        )
        return PendingCall(self, arrays, lowered, waiting, caller, background)

    def _of_devices(
        self, call: Call, runtime: Runtime, waiting: float, caller: str
    ) -> LibraryPrograms:
        """Programs by the prices of the devices, gathered from all ranks."""
        here = self.programs
        found = LibraryPrograms(here.rank, self.size, here.host_profile, here.hosts)
        if self._shares_facts:
            gather = partial(self._gather, call, waiting, caller)
            is_first = self.hosts.index(self.hosts[here.rank]) == here.rank
            found.pricer = gathered_pricer(runtime, is_first, gather)
        return found

    def _gather(
        self, call: Call, waiting: float, caller: str, mine: bytes
    ) -> list[bytes]:
        """Gather facts of all ranks; compared as the first call."""
        here = self.programs
        lengths = np.empty((self.size, 1), np.int64)
        announce = here.exchange(call, lengths.itemsize, ON_DEVICES, PART_OF_NEXT)
        own = np.array([[len(mine)]])
        self.runner.run_now(announce, own, lengths, waiting, caller)
        counts = tuple(lengths[:, 0].tolist())
        joined = np.empty(sum(counts), np.uint8)
        name = f"{EXCHANGE}{caller}"
        facts = Call("allgather", joined.dtype, len(mine), counts=counts)
        tell = here.named(facts, name, PART_OF_NEXT)
        told = np.frombuffer(mine, np.uint8)
        self.runner.run_now(tell, told, joined, waiting, caller)
        parts = np.split(joined, np.cumsum(counts)[:-1])
        return [part.tobytes() for part in parts]

    def _lowered(self, programs: LibraryPrograms, fields: tuple[Any, ...]) -> Lowered:
        """The programs of a call, made at the first with the plain name of its op."""
        asked = Call(*fields)
        if asked.reproducible == INVARIANT:
            raise TypeError(
                f"{asked.collective}: reproducible='invariant' runs on the host, but "
                "the arrays are on a device; copy them to the host"
            )
        call = asked.plain()
        if call not in self._known:
            _refuse_ops_of_host(call)
            whole = call._replace(parts=None)
            name = f"{programs.name(whole)} {ON_DEVICES}"
            if call.parts is not None:
                name = named_with_parts(name, call.parts)
            exchanges = [
                programs.exchange(whole, OFFER, name, counted)
                for counted in (WHOLE_CALL, PART_OF_LAST)
            ]
            self._known[call] = Lowered(whole, programs, *exchanges)
        return self._known[call]


def _refuse_ops_of_host(call: Call) -> None:
    """Refuse ops of the user, and a mean of integers, whose sum could wrap."""
    if isinstance(call.op, Op):
        raise TypeError(
            f"{call.collective}: op {call.op.name!r} runs on the host, but the arrays "
            "are on a device; copy them to the host"
        )
    if call.op == "avg" and call.dtype.kind in "iu":
        raise TypeError(
            f"{call.collective}: the sum of {call.dtype} for op 'avg' could overflow "
            "on a device; pass floats, or use 'sum' and divide"
        )


def _shadow(array: Array | None, caller: str) -> Shadow | None:
    """Check that an array is on a device, like the other array of the call.

    Raises
    ------
    TypeError
        If it is not.
    """
    if array is None or isinstance(array, Shadow):
        return array
    raise TypeError(
        f"{caller}: one of buf and out is on a device and the other in host memory; "
        "pass both on a device or both in host memory"
    )
