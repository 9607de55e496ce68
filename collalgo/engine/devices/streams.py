"""Programs on streams: operation by operation, or as a single kernel."""

from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from collalgo._kernels.engine.devices.sources import MOST
from collalgo.base import environment
from collalgo.engine.call import Call
from collalgo.engine.devices.interpreted import fits, interpreted
from collalgo.engine.devices.operations import (
    Clear,
    Combine,
    DeviceProgram,
    GroupedProgram,
    Place,
    Signal,
)
from collalgo.engine.devices.peers import Bases, Sharing
from collalgo.engine.devices.runtime import Network, Runtime, Table
from collalgo.engine.dtypes import kind_of

P = TypeVar("P", DeviceProgram, GroupedProgram)

#: The largest buffer of a call that runs as one kernel, in bytes, by default.
ONE_KERNEL = 1 << 22


def one_kernel() -> int:
    """The largest buffer of a call that runs as one kernel, as the user wants it."""
    given: int | None = environment.ONE_KERNEL.value()
    return ONE_KERNEL if given is None else given


class _Put(Generic[P]):
    """The program of a rank for a call, ready for its streams.

    Parameters
    ----------
    call
        A plain call.
    program
        The program of this rank.
    size
        The number of ranks.
    """

    def __init__(self, call: Call, program: P, size: int):
        self.program: P = program
        self._dtype = kind_of(call.dtype)
        self._op = "sum" if call.op in (None, "avg") else call.op
        self._itemsize = call.dtype.itemsize
        self._size = size
        combines = (o for o in program.operations if isinstance(o, Combine))
        self._reduces = any(_reduces(combine) for combine in combines)
        self._loaded: set[int] = set()  # the devices with loaded kernels

    def load(self, runtime: Runtime) -> None:
        """Load the kernels that reduce, before the first operation on a stream."""
        if self._reduces and runtime.device not in self._loaded:
            runtime.load(self._dtype, self._op, whole=False)
            self._loaded.add(runtime.device)

    def _combine(self, runtime: Runtime, operation: Combine, bases: Bases) -> None:
        target = _address(operation.target, bases)
        sources = [_address(place, bases) for place in operation.sources]
        if _reduces(operation):
            count = operation.nbytes // self._itemsize
            divisor = self._size if operation.divide else 0
            runtime.reduce(self._dtype, self._op, target, sources, count, divisor)
        elif target != sources[0]:  # the output may be the input
            runtime.copy(target, sources[0], operation.nbytes)


class Grouped(_Put[GroupedProgram]):
    """The program of a rank for a call over a network."""

    def put(self, runtime: Runtime, network: Network, bases: Bases) -> None:
        """Enqueue the operations of this rank on its stream."""
        for operation in self.program.operations:
            if isinstance(operation, Combine):
                self._combine(runtime, operation, bases)
            else:
                sends, receives = (
                    [(_address(t.place, bases), t.nbytes, t.peer) for t in side]
                    for side in operation
                )
                network.exchange(runtime.stream, sends, receives)


class Streamed(_Put[DeviceProgram]):
    """The program of a rank for a call on memory that all ranks can access."""

    def __init__(self, call: Call, program: DeviceProgram, size: int):
        super().__init__(call, program, size)
        self._nbytes = call.layout(size).nbytes
        combines = (o for o in program.operations if isinstance(o, Combine))
        most = max((len(combine.sources) for combine in combines), default=0)
        self._whole = fits(size) and most <= MOST and 0 < self._nbytes <= one_kernel()
        self._insisted = bool(environment.ONE_KERNEL.given())
        self._tables: dict[int, Table] = {}

    def prepare(self, runtime: Runtime) -> None:
        """Load the kernels of both ways; the way depends on the exchange of buffers."""
        self.load(runtime)
        if self._whole and runtime.device not in self._tables:
            self._tables[runtime.device] = self._table(runtime)

    def _in_one(self, sharing: Sharing) -> bool:
        """Whether a single kernel runs the program."""
        return self._whole and (self._insisted or not sharing.in_turns)

    def put(self, runtime: Runtime, bases: Bases, sharing: Sharing) -> None:
        """Enqueue the operations of this rank on its stream."""
        if self._in_one(sharing):
            buffers = tuple(chain.from_iterable(bases.values()))  # rank by rank
            table = self._tables[runtime.device]
            runtime.interpret(table, buffers, self._nbytes, sharing.ranks)
        else:
            self._put_each(runtime, bases)

    def _table(self, runtime: Runtime) -> Table:
        """The rows in the memory of the device."""
        runtime.load(self._dtype, self._op, whole=True)
        rows, places = interpreted(self.program.operations, self._size)
        return Table(
            self._dtype,
            self._op,
            runtime.upload(rows.view(np.uint8).reshape(-1)),
            runtime.upload(places.view(np.uint8).reshape(-1)),
            len(rows),
            runtime.upload(np.zeros(4 * len(rows), np.uint8)),
        )

    def _put_each(self, runtime: Runtime, bases: Bases) -> None:
        for operation in self.program.operations:
            if isinstance(operation, Combine):
                self._combine(runtime, operation, bases)
                continue
            flag = _address(operation.flag.place(self._size), bases)
            if isinstance(operation, Signal):
                runtime.write(flag, operation.number)
            elif isinstance(operation, Clear):
                runtime.write(flag, 0)
            else:
                runtime.wait(flag, operation.number)


def _reduces(operation: Combine) -> bool:
    """Whether the operation needs a kernel; else it is a copy."""
    return len(operation.sources) > 1 or operation.divide


def _address(place: Place, bases: Bases) -> int:
    return bases[place.rank][place.buffer] + place.at
