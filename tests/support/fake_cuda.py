"""A stand-in for CUDA: memory that the host cannot touch, and streams that are threads.

Addresses of its memory are none that a processor takes: what reads or writes there by
itself, and not on a stream, ends the tests at once.
"""

import ctypes
import threading
import time
import uuid
import weakref
from contextlib import contextmanager, nullcontext

import numpy as np

from collalgo._kernels.engine.devices import sources
from collalgo.engine.devices.runtime import Export, Memory
from collalgo.engine.reduction import reduction
from tests.support.fake_device_memory import (
    ELSEWHERE,
    MAPPED,
    DeviceArray,
    host,
    owned,
)
from tests.support.fake_network import Network
from tests.support.fake_stream import Mark, Stream
from tests.support.oracle import dtype_of


class StandIn:
    """The device of a rank, as :class:`collalgo.engine.devices.runtime.Runtime` says.

    Parameters
    ----------
    process, device
        Which it is.
    maps
        Whether its memory can be mapped by others.
    reaches
        Whether it can read the memory of other devices and processes.
    interpreters
        What is built of ``interpret.cuh`` for the host.
    network
        What carries messages between devices, if anything; and whether it comes up.
    """

    def __init__(
        self, process=0, device=0, *, maps=True, reaches=True, interpreters=None,
        network=None, comes_up=True,
    ):  # fmt: skip
        self.network, self.comes_up, self.ends = network, comes_up, []
        self.process, self.device = process, device
        self.maps, self.reaches = maps, reaches
        self.interpreters, self.interpreted = interpreters, 0
        self.opened, self.closed = [], []
        self.graph, self.loaded = None, set()
        self._stream = Stream()
        self.queue = self._stream.queue
        weakref.finalize(self, self._stream.end).atexit = False

    @property
    def failures(self):
        """What has failed on the stream, and on those beside it."""
        return self._stream.failures

    @failures.setter
    def failures(self, shared):
        self._stream.failures = shared

    # ---- for tests

    def array(self, values):
        values = np.ascontiguousarray(values)
        found = DeviceArray(values.shape, values.dtype)
        self.queue.put(lambda: self._store(found, values))
        return found

    def values(self, array):
        """What an array holds once the stream has come so far."""
        done = threading.Event()
        self.queue.put(done.set)
        while not done.wait(0.01):
            if self.failures:
                raise self.failures[0]
        return host(array.pointer, array.nbytes).view(array.dtype).reshape(array.shape)

    def gate(self):
        """Let the stream stand still until the event is set."""
        opened = threading.Event()
        self.queue.put(opened.wait)
        return opened

    @contextmanager
    def capture(self):
        """What goes on the stream goes into a graph."""
        self.graph = []
        yield self.graph
        self.graph = None

    def launch(self, graph):
        for operation in graph:
            self.queue.put(operation)

    def _put(self, operation):
        if self.graph is None:
            self.queue.put(operation)
        else:
            self.graph.append(operation)

    @staticmethod
    def _store(array, values):
        host(array.pointer, array.nbytes)[...] = values.reshape(-1).view(np.uint8)

    # ---- what a runtime does

    def memory(self, buf, caller):
        if not buf.contiguous:
            raise ValueError(f"{caller}: pass a contiguous copy of it")
        return Memory(buf, buf.pointer, buf.shape, buf.dtype, buf.writeable)

    def empty(self, shape, dtype):
        return self.memory(DeviceArray(shape, dtype), "empty")

    @property
    def bus_id(self):
        return f"00000000:{self.device + 1:02X}:00.0"

    in_turns = False

    @property
    def bandwidth(self):
        return 900.0

    @property
    def stream(self):
        return self.queue

    @property
    def capturing(self):
        return self.graph is not None

    def current(self):
        return nullcontext()

    def identity(self):
        return uuid.uuid4().bytes

    def join(self, identity, rank, size):
        if not self.comes_up:
            raise OSError("there is no cable")
        self.ends.append(Network(identity, rank))
        return self.ends[-1]

    def upload(self, values):
        found = self.empty((len(values),), np.uint8)
        host(found.pointer, len(values))[...] = values
        return found

    def part(self, whole, pointer, shape, dtype):
        return DeviceArray(shape, dtype, pointer, whole)

    def allocation(self, pointer):
        return id(owned(pointer)[2])

    def export(self, pointer):
        if not self.maps:
            return None
        base = owned(pointer)[0]
        return Export(base.to_bytes(64, "little"), pointer - base)

    def reach(self, device):
        if device != self.device and not self.reaches:
            raise OSError(f"device {device} cannot be reached")

    def open(self, handle):
        if not self.reaches:
            raise OSError("the memory of another process cannot be reached")
        self.opened.append(handle)
        return MAPPED + int.from_bytes(handle, "little")

    def close(self, pointer):
        self.closed.append(pointer)

    def follow(self, buf):
        pass

    def load(self, dtype, op, *, whole):
        self.loaded.add((dtype, op, whole))

    def copy(self, target, source, nbytes):
        def copy():
            host(target, nbytes)[...] = host(source, nbytes)

        self._put(copy)

    def reduce(self, dtype, op, target, sources, count, divisor):
        kind = dtype_of(dtype)
        assert (dtype, op, False) in self.loaded

        def reduce():
            arrays = [
                host(place, count * kind.itemsize).view(kind)
                for place in (target, *sources)
            ]
            reduction(kind, op)(arrays[0], arrays[1:], divisor)

        self._put(reduce)

    def interpret(self, table, buffers, nbytes, ranks):
        assert ranks >= 1
        self.interpreted += 1
        assert (table.dtype, table.op, True) in self.loaded
        name = sources.interpreter(table.dtype, table.op).name
        assert nbytes > 0
        addresses = [buffer & (ELSEWHERE - 1) for buffer in buffers]

        def one(memory):
            address = memory.pointer & (ELSEWHERE - 1)
            return (ctypes.c_void_p * 1)(address)

        def interpret():
            getattr(self.interpreters, name)(
                1, 1, 1, one(table.rows), (ctypes.c_int * 1)(table.length),
                one(table.places), (ctypes.c_int64 * sources.ROOM)(*addresses),
                one(table.arrived),
            )  # fmt: skip

        self._put(interpret)

    def end_waits(self, flags):
        host(flags.pointer, flags.shape[0])[...] = 127

    def mark(self):
        found = Mark(self)
        self._put(found.event.set)
        return found

    def after(self, mark):
        self._put(mark.event.wait)

    def hold(self, stream, mark):
        getattr(stream or self, "queue", stream).put(mark.event.wait)

    def as_now(self):
        return self

    def aside(self, *, high_priority=False):
        found = StandIn(
            self.process, self.device, maps=self.maps, reaches=self.reaches,
            interpreters=self.interpreters,
        )  # fmt: skip
        found.failures, found.loaded = self.failures, self.loaded
        found.has_high_priority = high_priority
        return found

    def write(self, flag, number):
        def write():
            host(flag, 4).view(np.uint32)[0] = number

        self._put(write)

    def wait(self, flag, number):
        def wait():
            end = time.monotonic() + 60
            place = host(flag, 4).view(np.uint32)
            while np.int32(np.uint32((int(place[0]) - number) % (1 << 32))) < 0:
                assert time.monotonic() < end, "a flag is never set"
                time.sleep(1e-5)

        self._put(wait)

    def to_host(self, pointer, target):
        array = DeviceArray((target.nbytes,), np.uint8, pointer, self)
        target[...] = self.values(array)

    def to_device(self, pointer, source):
        copied = source.copy()
        self._put(lambda: host(pointer, len(copied)).__setitem__(..., copied))
